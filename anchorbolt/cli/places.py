"""Opens the locations of a run for a command: without Spark, and so without its Hadoop settings."""

from anchorbolt.config.settings import Settings
from anchorbolt.errors import ConfigError
from anchorbolt.files import Folder, local_path, open_folder

ANOTHER_FILE_SYSTEM = (
    "Commands do not know Spark's Hadoop settings: if fs.defaultFS of the runs is not the local disk, name the place "
    "by its URI"
)


def checkpoint_folder(place: str | None, settings: Settings) -> Folder:
    """Open the checkpoint location of runs: `place`, or the location in their configuration.

    Raises `ConfigError` if no location is given, or if it does not exist.
    """
    location = place or settings.checkpoint_location
    if location is None:
        raise ConfigError(
            "no checkpoint location is given. Name it, as `anchorbolt run` prints it, or name a configuration with "
            "topology.checkpoint.location by --conf.",
            key="topology.checkpoint.location",
        )
    folder = open_place(location)
    if not folder.exists(""):
        raise ConfigError(f"{folder.location} does not exist on this machine. {ANOTHER_FILE_SYSTEM}.")
    return folder


def open_place(location: str) -> Folder:
    """Open a location of a run. A local location need not exist: the run may create it later.

    Raises `ConfigError` if a remote file system does not answer, or does not have the location: then this command may
    be using a different store than the run.
    """
    folder = open_folder(location)
    if local_path(folder.location) is not None:
        return folder
    try:
        problem = "" if folder.exists("") else "it does not exist there"
    except OSError as error:
        problem = str(error)
    if problem:
        raise ConfigError(
            f"{folder.location} cannot be read by this command: {problem}. Commands do not know Spark's Hadoop "
            "settings, such as fs.s3a.endpoint: they use the environment of this machine, such as AWS_ENDPOINT_URL "
            "and AWS_ACCESS_KEY_ID, and HDFS's default ports. Set these, or mount the place."
        )
    return folder
