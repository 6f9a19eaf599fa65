"""The exit codes of the command `anchorbolt`."""

from anchorbolt import errors

DONE = 0  # the command finished, or the run was stopped cleanly
JOB_FAILED = 1  # run: a bolt raised, a wave could not be finished, Spark gave up
KEY_ABSENT = 1  # state get: a key has no value
DIFFERENT = 1  # state diff: the states differ
WRONG_USAGE = 2  # wrong arguments, job, configuration or topology; nothing ran
PLATFORM_UNUSABLE = 3  # no Java, or Spark is too old or cannot be started
# The state store refused, failed or could not be reached; the state belongs to another streaming query; or a migration
# was refused or not finished.
STATE_REFUSED = 4
LEFT_AT_ONCE = 130  # run: a second SIGINT, during a wave; other commands: the first SIGINT


def exit_code(error: BaseException, *, running: bool) -> int:
    """Return the exit code for an error; `running` is True if the topology had started."""
    if isinstance(error, errors.PlatformError):
        return PLATFORM_UNUSABLE
    if isinstance(error, errors.StateError | errors.QueryChanged | errors.MigrationRefused):
        return STATE_REFUSED
    if isinstance(error, errors.ConfigError | errors.TopologyError | errors.JobError) and not running:
        return WRONG_USAGE
    return JOB_FAILED
