"""Checks the places of a run before it claims anything: they are shared, writable, and files can be moved in them.

What the driver sees says nothing about what tasks on other machines see, so they take part.
"""

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
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

CANNOT_WRITE = "cannot be written by the driver"

LOCATION = "topology.checkpoint.location"

_CONTENT = b"anchorbolt writes this before a run and removes it\n"

RunProbe = Callable[[Sequence[str], str, bytes], Iterable[Probed]]
"""Runs `probe_places` in tasks on the machines of the cluster, with the workers' locations; returns what they found."""


class Place(NamedTuple):
    """A place that a run writes to."""

    location: str  # qualified
    what: str  # what it is for the user
    key: str  # the setting that names it; empty if it is the argument of a sink


@contextmanager
def using(place: Place, problem: str = CANNOT_WRITE, *, waits: bool = True) -> Iterator[None]:
    """Raise what `failure` returns for an `OSError` of the driver; without `waits`, never `LocationUnavailable`."""
    try:
        yield
    except OSError as error:
        cause = cause_of(error)
        if cause is Cause.AWAY and not waits:
            cause = Cause.REFUSED
        raise failure(place, f"{problem}: {error}", cause) from error


def failure(place: Place, problem: str, cause: str = Cause.REFUSED) -> ConfigError | LocationUnavailable:
    """Return the error for a place that cannot be used: `LocationUnavailable` if that may change by waiting."""
    begun = f"{place.what}, {place.location}, {problem}."
    if cause == Cause.AWAY:
        return LocationUnavailable(
            f"{begun} See whether its servers run and can be reached, or name another location. Nothing was started."
        )
    return ConfigError(f"{begun} {_advice(place, cause)} Nothing was started.", key=place.key or None)


def _advice(place: Place, cause: str) -> str:
    another = f"set {place.key} to" if place.key else "give the sink"
    if cause == Cause.GONE:
        return f"Create the bucket, or {another} a location in another one."
    uri = uri_of(place.location)
    if cause == Cause.ACCESS and uri is not None and uri.scheme in S3_SCHEMES:
        return (
            "Set keys that may read, write and delete there, in spark-defaults.conf: fs.s3a.access.key and "
            "fs.s3a.secret.key, or fs.s3a.aws.credentials.provider, each with spark.hadoop. before its name. Those of "
            f"the bucket, fs.s3a.bucket.{uri.authority}.…, count more. Or {another} a location in another bucket."
        )
    if cause == Cause.NO_WEB_SERVER:
        return (
            "The driver reaches this HDFS, but no task does, because tasks speak WebHDFS. Set that setting, with "
            "spark.hadoop. before its name, to host:port of the NameNode's web server. It is not read if fs.defaultFS "
            "names another HDFS."
        )
    return (
        f"{another[0].upper()}{another[1:]} a location that the driver and every machine that runs tasks can write: a "
        "URI such as hdfs: or s3a:, or a directory that is mounted on all of them."
    )


def check_places(plan: ExecutionPlan, run_probe: RunProbe | None = None, locations: Locations | None = None) -> None:
    """Check all places of a run; nothing of the run is written. A file system that is away is waited for.

    Args:
        plan: The plan, on the driver.
        run_probe: None if tasks run on this machine only: then the driver does what they would do, and on a local disk
            only asks whether it may write.
        locations: What the driver opens places with; by default the plan's. They must not wait by themselves.

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
    RetryPolicy(plan.settings.message_timeout_secs * 1000).until_available(
        lambda: _check(plan, plan.locations if locations is None else locations, checkpoint, directories, run_probe)
    )


def _check(
    plan: ExecutionPlan, locations: Locations, checkpoint: Place, directories: list[Place], run_probe: RunProbe | None
) -> None:
    places = [checkpoint, *directories]
    letters = plan.settings.dead_letter
    if isinstance(letters, str) and not letters.startswith(REDIS_STREAM):
        place = Place(plan.locations.qualified(letters), "the directory of dead letters", DEAD_LETTER)
        _check_on_driver(locations, place)
    if run_probe is None and local_path(checkpoint.location) is not None:
        for place in places:
            _check_on_driver(locations, place)
        return
    _Probe(plan, locations, places, run_probe).run()


def _check_on_driver(locations: Locations, place: Place) -> None:
    """Check a place that only the driver writes to."""
    folder, path = locations.open(place.location), local_path(place.location)
    if path is not None:
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            raise failure(place, f"cannot be written: {there} is not a directory that this user may write")
        return
    probe = _probe_name()
    try:
        _write(place, folder, probe)
        _remove(place, folder, probe)
    finally:
        with suppress(OSError):
            folder.remove_tree(probe)


def _probe_name() -> str:
    return f".anchorbolt-probe-{uuid.uuid4().hex}"  # readers of a sink's directory skip what begins with a dot


class _Probe:
    def __init__(
        self, plan: ExecutionPlan, locations: Locations, places: list[Place], run_probe: RunProbe | None
    ) -> None:
        self._plan = plan
        self._run_probe: RunProbe = self._in_this_process if run_probe is None else run_probe
        self._name = _probe_name()
        self._folders = {place: locations.open(place.location) for place in places}

    def run(self) -> None:
        """Write as the driver, then as tasks, and look at what those wrote; remove it all in any case."""
        checkpoint, *directories = self._folders
        # Without sinks tasks write nothing there, but Spark's own may, and a later version of the topology.
        of_tasks = self._plan.places_of_tasks or ([checkpoint.location] if local_path(checkpoint.location) else [])
        places = list(dict.fromkeys(of_tasks))
        made = sorted({each for place in self._folders for each in _missing_directories(place)}, reverse=True)
        begun: list[Folder] = []
        try:
            for place, folder in self._folders.items():
                begun.append(folder)
                _write(place, folder, self._name)
            found = self._found_by_tasks(places) if places else []
            tasks = max(Counter(each.place for each in found).values(), default=1)
            for place in self._folders:
                if place.location in places:
                    self._check_tasks(place, [each for each in found if each.place == place.location], tasks)
            written = [each.name for each in found if each.place == checkpoint.location]
            for number, place in enumerate(directories):
                self._check_move(checkpoint, place, written[number % len(written)])
            for place, folder in self._folders.items():
                _remove(place, folder, self._name)
        except BaseException:
            for folder in begun:
                with suppress(OSError):
                    folder.remove_tree(self._name)
            for directory in made:  # those in others first
                with suppress(OSError):
                    directory.rmdir()
            raise

    def _found_by_tasks(self, places: Sequence[str]) -> list[Probed]:
        found = list(self._run_probe(places, self._name, _CONTENT))
        only_drivers = [place for place in self._folders if _has_no_web_server(place, found)]
        if not only_drivers:
            return found
        for place in only_drivers:
            self._names(place)
        # It answers the driver. If it had only started again meanwhile, it answers tasks now.
        return list(self._run_probe(places, self._name, _CONTENT))

    def _names(self, place: Place) -> set[str]:
        with using(place, "cannot be listed by the driver"):
            return set(self._folders[place].names(self._name))

    def _in_this_process(self, places: Sequence[str], probe: str, content: bytes) -> Iterator[Probed]:
        return probe_places(self._plan.locations.for_workers(places), places, probe, content)

    def _check_tasks(self, place: Place, found: list[Probed], tasks: int) -> None:
        if len(found) != tasks:
            raise failure(place, f"was looked at by {len(found)} tasks instead of {tasks}")
        names = self._names(place)
        for each in found:
            if each.problem:
                is_one_machines = each.cause == Cause.NO_WEB_SERVER and not _has_no_web_server(place, found)
                problem = f"cannot be used by tasks on the machine {each.host}: {each.problem}"
                raise failure(place, problem, Cause.AWAY if is_one_machines else each.cause)
            if not each.sees_driver:
                raise failure(place, f"is not shared: the machine {each.host} does not see what the driver wrote")
            if each.name not in names:
                raise failure(place, f"is not shared: the driver does not see what the machine {each.host} wrote")

    def _check_move(self, checkpoint: Place, place: Place, name: str) -> None:
        """Move a task's file from the checkpoint location to a sink's directory and back, as a sink is published."""
        there, back = self._folders[place], self._folders[checkpoint]
        name = join(self._name, name)
        problem = f"files cannot be moved there from {checkpoint.location}"
        with using(place, problem, waits=False):  # writing there has just worked
            there.move_in(join(checkpoint.location, name), f"{name}-moved")
        with using(place, problem):
            if there.read(f"{name}-moved") != _CONTENT:
                raise failure(place, "changes the content of files that are moved there")
        with using(place, problem, waits=False):
            back.move_in(join(place.location, f"{name}-moved"), name)


def _has_no_web_server(place: Place, found: list[Probed]) -> bool:
    """Return whether nothing listened, for any task, at the web address of the HDFS of a place."""
    causes = [each.cause for each in found if each.place == place.location]
    return bool(causes) and all(cause == Cause.NO_WEB_SERVER for cause in causes)


def _missing_directories(place: Place) -> Iterator[Path]:
    path = local_path(place.location)
    if path is not None:
        yield from (each for each in (path, *path.parents) if not each.exists())


def _write(place: Place, folder: Folder, probe: str) -> None:
    """Write the driver's file; twice where the run replaces files, which some buckets never allow."""
    with using(place):
        if place.key:
            folder.replace(join(probe, OF_DRIVER), b"the first content\n")
    with using(place, "the driver cannot replace a file there" if place.key else CANNOT_WRITE):
        folder.replace(join(probe, OF_DRIVER), _CONTENT)


def _remove(place: Place, folder: Folder, probe: str) -> None:
    with using(place, "files cannot be removed there by the driver"):
        folder.remove_tree(probe)
        if folder.exists(probe):
            raise failure(place, f"does not remove files: {probe} is still there")
