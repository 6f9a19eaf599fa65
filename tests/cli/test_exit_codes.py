"""Which error gives which exit code: each class of the tree has one."""

import pytest

from anchorbolt import errors
from anchorbolt.cli.exit_codes import JOB_FAILED, PLATFORM_UNUSABLE, STATE_REFUSED, WRONG_USAGE, exit_code

BEFORE_THE_START = {
    **dict.fromkeys(
        ("AnchorboltError", "BoltError", "SpoutError", "FaultInjected", "WaveFailed", "SerializationError"), JOB_FAILED
    ),
    **dict.fromkeys(
        ("CollectorClosed", "WorkerLost", "InfrastructureLost", "UnsupportedJavaClass", "UnsupportedValue"), JOB_FAILED
    ),
    **dict.fromkeys(("ConfigError", "TopologyError", "JobError"), WRONG_USAGE),
    "PlatformError": PLATFORM_UNUSABLE,
    **dict.fromkeys(("StateError", "Fenced", "StaleAttempt"), STATE_REFUSED),
    **dict.fromkeys(("StateUnavailable", "LocationUnavailable", "SinkUnavailable", "SourceUnavailable"), STATE_REFUSED),
    **dict.fromkeys(("StateRegressed", "CodecMismatch", "StateCorrupted"), STATE_REFUSED),
    **dict.fromkeys(("QueryChanged", "MigrationRefused"), STATE_REFUSED),
}


def test_every_error_has_an_exit_code_of_its_own_choice() -> None:
    assert set(BEFORE_THE_START) == set(errors.__all__)


@pytest.mark.parametrize(("name", "code"), BEFORE_THE_START.items())
def test_an_error_gives_its_code_and_wrong_usage_means_that_nothing_ran(name: str, code: int) -> None:
    kind = getattr(errors, name)
    assert exit_code(kind.__new__(kind), running=False) == code
    assert exit_code(kind.__new__(kind), running=True) == (JOB_FAILED if code == WRONG_USAGE else code)


def test_any_other_exception_is_a_failed_job() -> None:
    assert exit_code(ZeroDivisionError(), running=False) == JOB_FAILED
