"""The commands that move state, killed by SIGKILL at random moments: the old state or the new one, whole."""

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from anchorbolt import open_state
from anchorbolt.errors import StateError, StateRegressed, TopologyError
from anchorbolt.files import open_folder
from anchorbolt.migration_tools.savepoints.stored import Savepoint, savepoints_in, verify
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.provider import RedisStateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.migration_tools.conftest import conf_of
from tests.migration_tools.killed_commands import Kills, RunCommand, run_command  # noqa: F401 - fixture
from tests.migration_tools.test_rescaling import Job
from tests.servers.redis_server import RedisServer

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(1800)]

KEYS = [f"key-{number}" for number in range(3000)]
COUNTS = Counter([*KEYS[:5], *KEYS])
IMPORTED = {f"new-{number}": number for number in range(3000)}


@pytest.fixture
def command(run_command: RunCommand) -> RunCommand:  # noqa: F811
    """Run a command on a topology's state; see `run_command`."""

    def run(home: Path, *arguments: str, kill_after: float | None = None) -> tuple[int, float]:
        return run_command("state", *arguments, "--conf", str(home / "conf.json"), kill_after=kill_after)

    return run


@pytest.fixture
def whole(tmp_path: Path, name: str, command: RunCommand) -> Path:
    """The store, the checkpoint location and a savepoint of a topology that has counted."""
    home = tmp_path / "whole"
    job = Job(SqliteStateProvider(str(home / "state")), name, home / "place")
    job.run([*KEYS[:5], KEYS], 2)
    configure(home)
    assert command(home, "savepoint", name, "--name", "one")[0] == 0
    return home


def configure(home: Path, provider: StateProvider | None = None) -> None:
    store = provider or SqliteStateProvider(str(home / "state"))
    settings = {**conf_of(store), "topology.checkpoint.location": str(home / "place")}
    (home / "conf.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("what", ["rescale", "savepoint", "import"])
def test_a_command_that_is_killed_is_finished_by_the_same_command(
    what: str, whole: Path, name: str, tmp_path: Path, command: RunCommand
) -> None:
    kills = Kills()
    for number in kills.numbers():
        home = tmp_path / "again"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(whole, home)
        tasks = 3
        if what == "rescale":
            arguments = ["rescale", name, "count=3"]
        elif what == "import":
            entries = (json.dumps({"key": key, "value": value}) for key, value in IMPORTED.items())
            (home / "new.jsonl").write_text("\n".join(entries))
            arguments, tasks = ["import", name, "count", str(home / "new.jsonl"), "--replace"], 2
        else:
            arguments, tasks = ["savepoint", name, "--name", "two"], 2
        configure(home)
        if not number:
            kills.ended(*command(home, *arguments))
        else:
            code, took = command(home, *arguments, kill_after=kills.moment())
            kills.ended(code, took)
            if what == "savepoint" and code:
                assert savepoints_in(open_folder(str(home / "place-savepoints"))) in (["one"], ["one", "two"])
            if what == "import" and number % 2:  # a start finishes it, or finds nothing of it
                job = Job(SqliteStateProvider(str(home / "state")), name, home / "place")
                assert job.run([], tasks) in (COUNTS, IMPORTED)
            code, _ = command(home, *arguments)
            if code == 2 and what == "savepoint":  # it is there
                code = 0
            assert code == 0
        job = Job(SqliteStateProvider(str(home / "state")), name, home / "place")
        assert job.run([], tasks) == (IMPORTED if what == "import" else COUNTS)
        if what == "savepoint":
            verify(Savepoint.read(open_folder(str(home / "place-savepoints")), "two"))


@pytest.mark.parametrize("tasks", [2, 3])
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_a_restore_that_is_killed_is_nothing_or_whole_and_is_finished_by_the_same_command(
    store: str, tasks: int, whole: Path, name: str, tmp_path: Path, redis_database: RedisServer, command: RunCommand
) -> None:
    kills = Kills()
    home = tmp_path / "again"

    def read() -> dict[str, int]:
        with open_state(name, str(home / "conf.json")) as state:
            return dict(state.items("count"))

    restore = ["restore", str(whole / "place-savepoints" / "one"), *(["--rescale", "count=3"] if tasks == 3 else [])]
    for number in kills.numbers():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        with redis_database.client() as client:
            client.flushall()
        provider: StateProvider = SqliteStateProvider(str(home / "state"))
        if store == "redis":
            provider = RedisStateProvider(redis_database.host, redis_database.port)
        configure(home, provider)
        job = Job(provider, name, home / "place")
        if not number:
            kills.ended(*command(home, *restore))
            assert job.run([], tasks) == COUNTS
            continue
        kills.ended(*command(home, *restore, kill_after=kills.moment()))
        with suppress(StateError):
            assert read() == COUNTS
        if number % 2:  # a start is refused, or finds nothing or everything
            try:
                found = job.run([], tasks)
            except StateRegressed:
                kills.ends["start of a part refused"] += 1
            except TopologyError:  # restored, and not rescaled yet
                kills.ends["start before the rescale refused"] += 1
            else:
                assert found in ({}, COUNTS)
                kills.ends["start with all" if found else "start with nothing"] += 1
                continue
        assert command(home, *restore)[0] == 0
        assert read() == COUNTS
