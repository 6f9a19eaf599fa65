"""The custom state of `examples/hyperloglog`: on both engines, under kills, against sketches made in one go."""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from anchorbolt.errors import StateRegressed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.testing import CrashRunner, Fault, FaultPoint, FeederSpout
from tests.conftest import StartRedis
from tests.engine.jobs import finished, write_lines
from tests.examples.conftest import ROOT
from tests.servers.redis_server import DURABLE, RedisServer
from tests.support.certificates import Certificates
from tests.support.programs import printed

EXAMPLE = ROOT / "examples" / "hyperloglog"
CONFIG = "topology.state.provider.config"
WAVES = 9
PAGES = ("/", "/about", "/docs", "/blog")

Visits = list[list[tuple[str, str]]]


def made_up_visits(waves: int = WAVES) -> Visits:
    """Some thousand visits, a page's visitors overlapping from wave to wave."""
    chance = random.Random(11)
    return [[(chance.choice(PAGES), f"visitor-{chance.randrange(2_000)}") for _ in range(400)] for _ in range(waves)]


def in_one_go(client: Any, waves: Visits) -> dict[str, tuple[int, int]]:
    """What must come out: plain counts, and sketches that Redis makes of all visitors at once."""
    visits: Counter[str] = Counter()
    visitors: defaultdict[str, set[str]] = defaultdict(set)
    for page, visitor in (visit for wave in waves for visit in wave):
        visits[page] += 1
        visitors[page].add(visitor)
    found = {}
    for page, names in visitors.items():
        client.pfadd(f"in one go {page}", *names)
        found[page] = (visits[page], client.pfcount(f"in one go {page}"))
        assert abs(found[page][1] - len(names)) <= 0.04 * len(names)
    return found


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.setitem(sys.modules, "job", None)  # a name that others use, too
    del sys.modules["job"]
    return import_module


def conf_of(server: RedisServer, folder: Path) -> dict[str, Any]:
    return {
        "topology.state.provider": "hyperloglog.HyperLogLogProvider",
        CONFIG: {"host": server.host, "port": server.port},
        "topology.checkpoint.location": str(folder / "checkpoint"),
        "hyperloglog.input": str(folder / "in"),
    }


def leftovers(client: Any) -> list[str]:
    """Keys of attempts, of which none may be left."""
    own = ("$hll", "$hll$visits")
    return [key.decode() for key in client.keys("*$hll*") if not key.decode().endswith(own) and b"$sketch$" not in key]


def test_on_the_local_cluster_it_equals_sketches_made_in_one_go(
    example: Any, redis_database: RedisServer, tmp_path: Path
) -> None:
    waves = made_up_visits()
    spout = FeederSpout(["line"], [[(" ".join(visit),) for visit in wave] for wave in waves])
    written = yaml.safe_load((EXAMPLE / "conf.yaml").read_text())
    conf = conf_of(redis_database, tmp_path)
    assert set(written) <= set(conf)
    assert set(written[CONFIG]) == set(conf[CONFIG]), "the file that the README names has these keys"
    finished(example("job").wire(spout), written | conf)
    with redis_database.client() as client:
        assert example("hyperloglog").read_pages(client, "hyperloglog", 2) == in_one_go(client, waves)
        assert leftovers(client) == []


def test_the_documented_command_for_one_process_prints_every_page(redis_database: RedisServer, tmp_path: Path) -> None:
    shown = printed(EXAMPLE / "job.py", cwd=tmp_path, HYPERLOGLOG_PORT=str(redis_database.port))
    lines = [line for file in (EXAMPLE / "in").glob("*.txt") for line in file.read_text().splitlines()]
    counts = Counter(line.split()[0] for line in lines)
    assert [line.partition(" by about")[0] for line in shown.splitlines()] == [
        f"{page}: {count} visits" for page, count in sorted(counts.items())
    ]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_spark_killed_before_and_after_decisions_it_equals_sketches_made_in_one_go(
    example: Any, start_redis: StartRedis, tmp_path: Path
) -> None:
    server = start_redis(**DURABLE)
    waves = made_up_visits()
    folder = tmp_path / "run"
    write_lines(folder / "in", [map(" ".join, wave) for wave in waves])
    runner = CrashRunner(
        f"{EXAMPLE / 'job.py'}:topology", folder, conf=conf_of(server, folder), arguments=["--master", "local[2]"]
    )
    report = runner.run(
        Fault(FaultPoint.STAGED, component="visitors", txid=1),  # a worker that has prepared, and not sealed
        Fault(FaultPoint.DECIDED, txid=2),  # the driver, between decision and commit
        Fault(FaultPoint.SEALED, component="visitors", txid=3),
        Fault(FaultPoint.ROUND_ENDED, txid=4),  # the driver, before its decision
        Fault(FaultPoint.NAMESPACE_COMMITTED, txid=5),  # one task has committed, the other may not have
        Fault(FaultPoint.COMMITTED, txid=6),
    )
    assert report.struck == report.faults
    assert {start.recovery for start in report.starts} == {"started", "rolled forward", "rolled back", "resumed"}
    with server.client() as client:
        assert example("hyperloglog").read_pages(client, "hyperloglog", 2) == in_one_go(client, waves)
        assert leftovers(client) == []


@pytest.fixture
def open_state(example: Any, redis_database: RedisServer) -> Iterator[Any]:
    """Open a new object of the state, as a task or the driver does."""
    provider = example("hyperloglog").HyperLogLogProvider(redis_database.host, redis_database.port)
    opened = []

    def open_one(scope: AttemptScope | None = None) -> Any:
        state = example("hyperloglog").HyperLogLogState(provider.connect(), "t:visitors-0")
        opened.append(state)
        if scope is not None:
            state.begin(scope)
        return state

    yield open_one
    for state in opened:
        state.close()


A, B, C = "a" * 32, "b" * 32, "c" * 32


def test_only_what_the_winner_staged_is_committed_and_only_once(open_state: Any, redis_database: RedisServer) -> None:
    for attempt, visits in ((A, 3), (B, 5)):
        task = open_state(AttemptScope(Fence(1, 1), 0, attempt))
        for number in range(visits):
            task.add("/", f"visitor-{number}")
        assert (task.visits("/"), task.visitors("/")) == (visits, visits), "its own updates are seen"
        task.prepare_commit(0)
        task.prepare_commit(0)
    driver = open_state()
    for _ in range(2):
        driver.commit_attempt(0, A)
    after = open_state(AttemptScope(Fence(1, 2), 1, C, 0, A))
    assert (after.visits("/"), after.visitors("/")) == (3, 3)
    driver.drop_attempts(Fence(1, 3))
    with redis_database.client() as client:
        assert leftovers(client) == []


def test_a_late_call_of_an_older_driver_changes_nothing(open_state: Any) -> None:
    task = open_state(AttemptScope(Fence(2, 1), 0, A))
    task.add("/", "visitor")
    task.prepare_commit(0)
    open_state().drop_attempts(Fence(1, 99))
    open_state().commit_attempt(0, A)
    task = open_state(AttemptScope(Fence(2, 3), 1, B, 0, A))
    task.add("/", "visitor")
    task.prepare_commit(1)
    open_state().commit_attempt(0, A)
    open_state().commit_attempt(1, B)
    assert open_state(AttemptScope(Fence(2, 4), 2, C, 1, B)).visits("/") == 2


def test_an_attempt_that_is_not_whole_is_not_committed_and_a_lost_store_is_noticed(open_state: Any) -> None:
    task = open_state(AttemptScope(Fence(1, 1), 0, A))
    for number in range(10_000):
        task.add("/", f"visitor-{number}")  # the last one stages what is buffered
    for attempt, txid in ((A, 0), (B, 0)):
        with pytest.raises(StateRegressed, match="which was decided"):
            open_state().commit_attempt(txid, attempt)
    task.prepare_commit(0)
    with pytest.raises(StateRegressed):
        open_state().commit_attempt(1, A)
    with pytest.raises(StateRegressed, match="restored from an older copy"):
        open_state(AttemptScope(Fence(1, 2), 1, B, 0, A))


def test_it_is_encrypted_where_the_configuration_asks_for_it(
    example: Any, start_redis: StartRedis, certificates: Certificates
) -> None:
    server = start_redis(tls=True)
    tls = {"ca": str(certificates.authority)}
    provider = example("hyperloglog").HyperLogLogProvider(server.host, server.port, tls=tls)
    assert provider.connect().ping()
    with closing(provider.open("hyperloglog:visitors-0")) as storage:
        assert storage.claim() == Fence(1, 0)
