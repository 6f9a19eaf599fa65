"""Opens the store and the locations of a run for a command: without Spark, and so without its Hadoop settings."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from anchorbolt.config.loading import load_conf
from anchorbolt.config.settings import Settings
from anchorbolt.errors import ConfigError
from anchorbolt.files import Folder, local_path, open_folder
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.provider_factory import codecs_from, provider_from

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
        raise ConfigError(
            f"{folder.location} does not exist on this machine. Name the checkpoint location, as `anchorbolt run` "
            f"prints it. {ANOTHER_FILE_SYSTEM}."
        )
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


def open_store(conf_file: Path | None, overrides: Sequence[str]) -> tuple[StateProvider, Settings, Codecs]:
    """Return the configured store, with its settings and codecs.

    A user's classes may be in the current directory. Raises `ConfigError`, also for the provider `memory`.
    """
    settings = load_conf(file=conf_file, overrides=overrides).settings
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    provider = provider_from(settings, shared_by_processes=False, shared_by_machines=False)
    if not provider.shared_by_processes:
        raise ConfigError(
            f"topology.state.provider is {settings.provider.name}, whose state ends with the process that runs the "
            "topology. Name the provider of a run: --conf FILE, or --set topology.state.provider=redis.",
            key="topology.state.provider",
        )
    return provider, settings, Codecs(*codecs_from(settings.provider))
