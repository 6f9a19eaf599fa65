"""The places of a run are checked before it begins: each that cannot work is refused."""

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import ParquetSink
from anchorbolt.engine.driver.places import check_places
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.probe import Cause, Probed, probe_places
from anchorbolt.errors import ConfigError, LocationUnavailable
from anchorbolt.files import FileSystemGone, Folder, WorkerLocations
from anchorbolt.files.local_folder import LocalFolder
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count

LOCATION = "topology.checkpoint.location"
LETTERS = "topology.dead.letter"


class Machine:
    """Locations as one machine sees them: URIs of `hdfs:` are folders of its disk."""

    def __init__(
        self, disk: Path, open_here: Callable[[str], Folder] | None = None, *, kind: type["_Mounted"] | None = None
    ) -> None:
        self._disk = disk
        self._open = open_here
        self._kind = kind or _Mounted

    def qualified(self, location: str) -> str:
        return location if "://" in location else f"hdfs://shared/{location}"

    def open(self, location: str) -> Folder:
        if self._open is not None:
            return self._open(location)
        return self._kind(location, self._disk / self.qualified(location).partition("://")[2])

    def for_workers(self, places: Iterable[str]) -> "Machine":
        return self


class _Mounted(LocalFolder):
    def move_in(self, source: str, name: str) -> None:
        root = Path(str(self._path).removesuffix(self.location.partition("://")[2]))
        super().move_in(str(root / source.partition("://")[2]), name)


@pytest.fixture
def plan_of(tmp_path: Path) -> Callable[..., ExecutionPlan]:
    """Plan a word count into a sink at `hdfs://shared/out`, for a driver that sees `disk`."""

    def plan(disk: str = "disk", out: str = "out", locations: Any = None, **conf: Any) -> ExecutionPlan:
        settings = {LOCATION: "checkpoint"} | {key.replace("_", "."): value for key, value in conf.items()}
        topology = word_count(feeder("a b"), ParquetSink(out))
        seen = Machine(tmp_path / disk) if locations is None else locations
        return prepare_plan(topology, settings, memory=MemoryStateProvider(), locations=seen)

    return plan


PlanOf = Callable[..., ExecutionPlan]


def on(machine: Any) -> Callable[[Sequence[str], str, bytes], Iterator[Probed]]:
    """Run the tasks of the check on another machine."""
    return lambda places, probe, content: probe_places(machine, places, probe, content)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_shared_places_are_accepted_and_nothing_stays_there(plan_of: PlanOf, tmp_path: Path) -> None:
    check_places(plan_of(), on(Machine(tmp_path / "disk")))
    check_places(plan_of())
    assert files_in(tmp_path) == []


def test_a_disk_that_only_the_driver_sees_is_refused_although_a_task_could_write_its_own(
    plan_of: PlanOf, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="not shared") as caught:
        check_places(plan_of(), on(Machine(tmp_path / "other")))
    assert caught.value.key == LOCATION
    assert files_in(tmp_path) == []


def test_a_sinks_directory_that_only_the_driver_sees_is_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    here, elsewhere = Machine(tmp_path / "disk"), Machine(tmp_path / "other")
    worker = Machine(tmp_path, lambda location: (elsewhere if "out" in location else here).open(location))
    with pytest.raises(ConfigError, match="is not shared"):
        check_places(plan_of(), on(worker))
    assert files_in(tmp_path) == []


def test_what_a_task_has_written_and_the_driver_does_not_see_is_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    def write_elsewhere(places: Sequence[str], probe: str, content: bytes) -> Iterator[Probed]:
        return (Probed(place, "worker", "nowhere", "") for place in places)

    with pytest.raises(ConfigError, match="driver does not see"):
        check_places(plan_of(), write_elsewhere)


def test_a_place_that_a_task_cannot_write_is_refused_with_its_error(plan_of: PlanOf, tmp_path: Path) -> None:
    class ReadOnly(_Mounted):
        def create_passing(self, name: str) -> Any:
            raise OSError(errno.EROFS, "read-only file system")

    worker = Machine(tmp_path / "disk", kind=ReadOnly)
    with pytest.raises(ConfigError, match="read-only file system") as caught:
        check_places(plan_of(), on(worker))
    assert caught.value.key == LOCATION
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("error", [ConfigError("this machine lacks fsspec"), RuntimeError("broken library")])
def test_a_place_that_workers_cannot_open_is_refused_with_the_error(
    plan_of: PlanOf, tmp_path: Path, error: Exception
) -> None:
    def fails(location: str) -> Folder:
        raise error

    with pytest.raises(ConfigError, match=str(error)) as caught:
        check_places(plan_of(), on(Machine(tmp_path, fails)))
    assert caught.value.key == LOCATION


def test_a_place_that_no_task_has_looked_at_is_noticed(plan_of: PlanOf, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="by no task"):
        check_places(plan_of(), lambda *check: [])
    assert files_in(tmp_path) == []


class _Bucket(_Mounted):
    """A folder that allows what its class attributes say."""

    removes = replaces = True

    def replace(self, name: str, data: bytes) -> None:
        if self.exists(name) and not self.replaces:
            raise PermissionError("object is locked")
        super().replace(name, data)

    def remove_tree(self, name: str) -> None:
        if self.removes:
            super().remove_tree(name)


@pytest.mark.parametrize(("right", "problem"), [("removes", "does not remove"), ("replaces", "cannot be written")])
def test_a_driver_that_may_not_remove_or_replace_is_refused(
    plan_of: PlanOf, tmp_path: Path, right: str, problem: str
) -> None:
    kind = type("_Limited", (_Bucket,), {right: False})
    locations = Machine(tmp_path / "disk", kind=kind)
    with pytest.raises(ConfigError, match=problem) as caught:
        check_places(plan_of(locations=locations), on(Machine(tmp_path / "disk")))
    assert caught.value.key == LOCATION


class Away(_Mounted):
    """A file system that does not answer at first, or not at all."""

    left = 0  # answers that fail

    def replace(self, name: str, data: bytes) -> None:
        if Away.left > 0:
            Away.left -= 1
            raise OSError("no DataNode")
        super().replace(name, data)


@pytest.mark.parametrize("is_task", [False, True])
def test_a_file_system_that_is_away_for_a_moment_is_waited_for(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_task: bool
) -> None:
    monkeypatch.setattr(Away, "left", 0 if is_task else 2)
    answers = iter([True, False])
    driver = Machine(tmp_path / "disk", kind=Away)

    def probe(places: Sequence[str], probe: str, content: bytes) -> Iterator[Probed]:
        if is_task and next(answers):
            return (Probed(place, "worker", "", "no DataNode", Cause.AWAY) for place in places)
        return probe_places(driver, places, probe, content)

    check_places(plan_of(locations=driver), probe)
    assert Away.left == 0
    assert files_in(tmp_path) == []


def test_a_file_system_that_stays_away_ends_the_start(
    plan_of: PlanOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Away, "left", 1000)
    driver = Machine(tmp_path / "disk", kind=Away)
    with pytest.raises(LocationUnavailable, match="no DataNode"):
        check_places(
            plan_of(locations=driver, topology_message_timeout_secs=1, topology_state_checkpoint_interval_ms=100),
            on(driver),
        )


@pytest.mark.parametrize(("gone", "advice"), [("checkpoint", LOCATION), ("out", "Give the sink"), ("dead", LETTERS)])
def test_a_bucket_that_does_not_exist_is_refused_at_once(
    plan_of: PlanOf, tmp_path: Path, gone: str, advice: str
) -> None:
    class NoBucket(_Mounted):
        def replace(self, name: str, data: bytes) -> None:
            raise FileSystemGone("UnknownStoreException: the specified bucket does not exist")

    def open_here(location: str) -> Folder:
        kind = NoBucket if location.endswith(gone) else _Mounted
        return kind(location, tmp_path / "disk" / location.partition("://")[2])

    locations = Machine(tmp_path, open_here)
    with pytest.raises(ConfigError, match=advice):
        check_places(plan_of(locations=locations, topology_dead_letter="dead"), on(locations))
    assert files_in(tmp_path) == []


DENIED = "When reading information for key 'x' in bucket 'jobs': AWS Error ACCESS_DENIED during HeadObject operation"


@pytest.mark.parametrize(
    ("scheme", "error", "is_task"),
    [
        ("s3a", PermissionError("AccessDeniedException: The AWS Access Key Id does not exist"), False),
        ("s3a", PermissionError("AccessDeniedException: The AWS Access Key Id does not exist"), True),
        ("s3a", OSError(DENIED), True),  # as pyarrow raises it
        ("hdfs", PermissionError("AccessControlException: Permission denied"), False),
    ],
)
def test_keys_that_an_s3_refuses_are_told_by_the_names_of_their_settings(
    plan_of: PlanOf, tmp_path: Path, scheme: str, error: OSError, is_task: bool
) -> None:
    class Refuses(_Mounted):
        def replace(self, name: str, data: bytes) -> None:
            raise error

        def read(self, name: str) -> bytes:
            raise error

    driver = Machine(tmp_path / "disk", kind=_Mounted if is_task else Refuses)
    worker = Machine(tmp_path / "disk", kind=Refuses)
    conf = {"topology_checkpoint_location": f"{scheme}://jobs/checkpoint"}
    with pytest.raises(ConfigError, match=str(error)) as caught:
        check_places(plan_of(out=f"{scheme}://jobs/out", locations=driver, **conf), on(worker))
    names = {"fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.aws.credentials.provider", "fs.s3a.bucket.jobs."}
    assert {name for name in names if name in caught.value.message} == (names if scheme == "s3a" else set())
    assert files_in(tmp_path) == []


def test_directories_that_the_check_has_made_are_removed_if_it_refuses(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    conf = {"topology_checkpoint_location": str(tmp_path / "a" / "b" / "checkpoint")}
    plan = plan_of(out=str(tmp_path / "mine" / "deep" / "out"), locations=WorkerLocations(), **conf)
    with pytest.raises(ConfigError, match="not shared"):
        check_places(plan, lambda places, *check: [Probed(place, "worker", "nowhere", "") for place in places])
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_two_sinks_may_share_a_directory(plan_of: PlanOf, tmp_path: Path) -> None:
    topology = word_count(feeder("a b"), ParquetSink("out"), ParquetSink("out"))
    settings = {LOCATION: "checkpoint"}
    plan = prepare_plan(topology, settings, memory=MemoryStateProvider(), locations=Machine(tmp_path / "disk"))
    check_places(plan, on(Machine(tmp_path / "disk")))


@pytest.mark.parametrize("out", ["hdfs://elsewhere/out", "s3a://bucket/out", "file:///out"])
def test_a_sink_on_another_file_system_than_the_checkpoint_location_is_refused(plan_of: PlanOf, out: str) -> None:
    with pytest.raises(ConfigError, match="another file system") as caught:
        check_places(plan_of(out=out))
    assert caught.value.key == LOCATION


@pytest.mark.parametrize(("key", "what"), [(LOCATION, "checkpoint location"), (LETTERS, "dead letters")])
def test_a_local_place_that_cannot_become_a_directory_is_refused(
    plan_of: PlanOf, tmp_path: Path, key: str, what: str
) -> None:
    (tmp_path / "file").touch()
    places = {LOCATION: str(tmp_path / "checkpoint"), key: str(tmp_path / "file" / "below")}
    conf = {name.replace(".", "_"): value for name, value in places.items()}
    with pytest.raises(ConfigError, match=what) as caught:
        check_places(plan_of(out=str(tmp_path / "out"), locations=WorkerLocations(), **conf))
    assert caught.value.key == key
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_dead_letters_that_the_driver_cannot_write_are_refused(plan_of: PlanOf, tmp_path: Path) -> None:
    (tmp_path / "disk" / "shared").mkdir(parents=True)
    (tmp_path / "disk" / "shared" / "letters").touch()
    with pytest.raises(ConfigError):
        check_places(plan_of(topology_dead_letter="letters"))


def test_local_places_of_one_machine_are_accepted_and_nothing_is_written(plan_of: PlanOf, tmp_path: Path) -> None:
    conf = {"topology_checkpoint_location": str(tmp_path / "a" / "checkpoint"), "topology_dead_letter": str(tmp_path)}
    check_places(plan_of(out=str(tmp_path / "out"), locations=WorkerLocations(), **conf))
    assert list(tmp_path.iterdir()) == []
