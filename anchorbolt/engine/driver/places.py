"""Checks the places of a run before the run claims anything: that all machines share them, and can write there.

Tasks take part, because other machines may see other files than the driver.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from anchorbolt.checkpoint.letters.letter_store import REDIS_STREAM
from anchorbolt.config.settings import DEAD_LETTER
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.probe import OF_DRIVER, Cause, Probed, cause_of, probe_places
from anchorbolt.errors import ConfigError, LocationUnavailable
from anchorbolt.files import Folder, Locations, join, local_path
from anchorbolt.files.paths import S3_SCHEMES, on_one_file_system, uri_of
from anchorbolt.util.retry import RetryPolicy

LOCATION = "topology.checkpoint.location"

_CONTENT = b"anchorbolt writes this before a run and removes it\n"

RunProbe = Callable[[Sequence[str], str, bytes], Iterable[Probed]]
"""Runs `probe_places` in tasks on the machines of the cluster, with the workers' locations; returns their results."""


class Place(NamedTuple):
    """A place that a run writes to."""

    location: str  # qualified
    what: str  # its name in messages
    key: str  # the setting that names it; empty if it is the argument of a sink


@contextmanager
def _using(place: Place, problem: str) -> Iterator[None]:
    """Convert an `OSError` of the driver to the error of `_failure`."""
    try:
        yield
    except OSError as error:
        raise _failure(place, f"{problem}: {error}", cause_of(error)) from error


def _failure(place: Place, problem: str, cause: str = Cause.REFUSED) -> ConfigError | LocationUnavailable:
    """Return the error for an unusable place: `LocationUnavailable` if waiting may help, `ConfigError` otherwise."""
    begun = f"{place.what}, {place.location}, {problem}."
    if cause == Cause.AWAY:
        return LocationUnavailable(
            f"{begun} See whether its servers run and can be reached, or name another location. Nothing was started."
        )
    return ConfigError(f"{begun} {_advice(place, cause)} Nothing was started.", key=place.key or None)


def _advice(place: Place, cause: str) -> str:
    uri = uri_of(place.location)
    if cause == Cause.ACCESS and uri is not None and uri.scheme in S3_SCHEMES:
        return (
            "Set keys that may read, write and delete there, in spark-defaults.conf: fs.s3a.access.key and "
            "fs.s3a.secret.key, or fs.s3a.aws.credentials.provider, each with spark.hadoop. before its name. Those of "
            f"the bucket, fs.s3a.bucket.{uri.authority}.…, count more."
        )
    another = f"Set {place.key} to" if place.key else "Give the sink"
    return (
        f"{another} a location that the driver and every machine that runs tasks can write: a URI such as hdfs: or "
        "s3a: of a file system or bucket that exists, or a directory that is mounted on all of them."
    )


def check_places(plan: ExecutionPlan, run_probe: RunProbe | None = None, locations: Locations | None = None) -> None:
    """Check all places of a run before the run writes anything. Waits for a file system that does not answer.

    Args:
        plan: The plan, on the driver.
        run_probe: None if tasks run on this machine only. Then the driver takes their part, and for a local disk only
            checks its permission to write.
        locations: Opens the places for the driver; by default the plan's. It must not wait by itself.

    Raises:
        ConfigError: A place cannot be used; the message says what to set.
        LocationUnavailable: A file system did not answer for `topology.message.timeout.secs`.
    """
    checkpoint = Place(plan.checkpoint_location, "the checkpoint location", LOCATION)
    directories = [
        Place(plan.locations.qualified(directory), f"the directory of sink {component!r}", "")
        for component, sink in plan.sinks.items()
        for directory in sink.directories()
    ]
    for place in directories:
        if not on_one_file_system(place.location, checkpoint.location):
            raise ConfigError(
                f"{place.what}, {place.location}, is on another file system than the checkpoint location, "
                f"{checkpoint.location}: files cannot be moved from one to the other. Set {LOCATION} to a location on "
                "the file system of the sink's directory.",
                key=LOCATION,
            )
    of_driver = []  # that no task uses
    letters = plan.settings.dead_letter
    if isinstance(letters, str) and not letters.startswith(REDIS_STREAM):
        of_driver.append(Place(plan.locations.qualified(letters), "the directory of dead letters", DEAD_LETTER))
    of_tasks = [checkpoint, *directories]
    if run_probe is None and local_path(checkpoint.location) is not None:
        of_driver, of_tasks = [*of_driver, *of_tasks], []
    opened = plan.locations if locations is None else locations

    def check() -> None:
        for place in of_driver:
            if not _is_writable_here(place):
                _probe(plan, opened, [place], None)
        if of_tasks:
            in_this_process = partial(probe_places, plan.locations.for_workers([place.location for place in of_tasks]))
            _probe(plan, opened, of_tasks, run_probe or in_this_process)

    RetryPolicy(plan.settings.message_timeout_secs * 1000).until_available(check)


def _is_writable_here(place: Place) -> bool:
    """Return True for a directory of this machine, and False for another place. Raises if it cannot be written."""
    path = local_path(place.location)
    if path is None:
        return False
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise _failure(place, f"cannot be written: {there} is not a directory that this user may write")
    return True


def _probe(plan: ExecutionPlan, locations: Locations, places: Sequence[Place], run_probe: RunProbe | None) -> None:
    """Write files, let tasks read them and write their own, check these, and remove all files in any case."""
    name = f".anchorbolt-probe-{uuid.uuid4().hex}"  # readers of a sink's directory skip names that begin with a dot
    folders = {place: locations.open(place.location) for place in dict.fromkeys(places)}
    made = sorted({each for place in folders for each in _missing_directories(place)}, reverse=True)
    try:
        for place, folder in folders.items():
            for content in (b"the first content\n", _CONTENT):  # some buckets never let a file be replaced
                with _using(place, "cannot be written by the driver"):
                    folder.replace(join(name, OF_DRIVER), content)
        # Without sinks the tasks write nothing there, but Spark's may, and so may a later version of the topology.
        is_local = local_path(plan.checkpoint_location) is not None
        of_tasks = plan.places_of_tasks or [plan.checkpoint_location] * is_local
        if run_probe is not None and of_tasks:
            _check_tasks(folders, list(run_probe(list(dict.fromkeys(of_tasks)), name, _CONTENT)), of_tasks, name)
        for place, folder in folders.items():
            with _using(place, "files cannot be removed there by the driver"):
                folder.remove_tree(name)
                if folder.exists(name):
                    raise _failure(place, f"does not remove files: {name} is still there")
    except BaseException:
        for folder in folders.values():
            with suppress(OSError):
                folder.remove_tree(name)
        for directory in made:  # inner ones first
            with suppress(OSError):
                directory.rmdir()
        raise


def _check_tasks(folders: Mapping[Place, Folder], found: Sequence[Probed], of_tasks: Sequence[str], name: str) -> None:
    for place, folder in folders.items():
        here = [each for each in found if each.place == place.location]
        if place.location in of_tasks and not here:
            raise _failure(place, "was looked at by no task")
        for each in here:
            if each.problem:
                raise _failure(place, f"cannot be used by tasks on the machine {each.host}: {each.problem}", each.cause)
        with _using(place, "cannot be listed by the driver"):
            names = set(folder.names(name))
        for each in here:
            if each.name not in names:
                raise _failure(place, f"is not shared: the driver does not see what the machine {each.host} wrote")


def _missing_directories(place: Place) -> Iterator[Path]:
    path = local_path(place.location)
    if path is not None:
        yield from (each for each in (path, *path.parents) if not each.exists())
