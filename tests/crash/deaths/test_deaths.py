"""Messages of a Redis stream are counted exactly once, whoever dies, also at named points."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.testing import CrashRunner, Fault, FaultPoint
from tests.crash.deaths.job import TASKS, job_conf
from tests.crash.deaths.messages import counts, load, messages
from tests.crash.deaths.outcome import state_problems, stream_problems
from tests.crash.deaths.plan import one_of_each, plan
from tests.crash.deaths.report import Report
from tests.crash.deaths.runs import Run, Wanted
from tests.crash.plans import IN_RECOVERY
from tests.servers.redis_server import DURABLE, RedisServer
from tests.support.stores import settings_of

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900), pytest.mark.usefixtures("redis_program")]


def run(home: Path, wanted: Wanted) -> Report:
    report = Run(home, wanted, print).run()
    assert report.wrong == []
    return report


def test_a_worker_redis_and_a_driver_die(tmp_path: Path) -> None:
    report = run(tmp_path, Wanted(1, 20_000, one_of_each(20_000)))
    assert report.not_struck == []
    assert report.starts == 2


@pytest.mark.parametrize(
    ("store", "late", "stable", "kinds"),
    [
        ("redis", True, True, {}),
        ("sqlite", False, True, {}),
        ("redis", False, False, {}),
        ("sqlite", False, True, {"vectorised": True}),
        ("redis", True, True, {"chained": True}),
    ],
    ids=["late acks", "state in SQLite", "unstable ids", "vectorised", "chained"],
)
def test_many_die_one_after_the_other(
    tmp_path: Path, store: str, late: bool, stable: bool, kinds: Mapping[str, Any]
) -> None:
    wanted = Wanted(2, 40_000, plan(2, 8, 40_000), store, late, stable, **kinds)
    report = run(tmp_path, wanted)
    assert report.killed.total() > 4, "the others come too late on a fast machine"


BATCH = 50
HAND_OVER = (
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACES_COMMITTED,
    FaultPoint.COMMITTED,
    FaultPoint.WAVE_ENDED,
)
WORKERS = ((ACKER_ID, FaultPoint.TASK_ALIGNED), (ACKER_ID, FaultPoint.SEALED), ("messages", FaultPoint.TASK_BEGUN))


def problems(home: Path, program: str, faults: Sequence[Fault], *, late: bool) -> list[str]:
    """Run the job with these faults, each in a wave of its own, and say what is not as it must be."""
    all_messages = messages(1, (len(faults) + 4) * BATCH * TASKS)
    with closing(RedisServer(program, home / "redis", **DURABLE)) as server:
        server.start()
        with server.client() as client:
            load(client, all_messages)
        conf = {
            **settings_of(server),
            **job_conf(server, late=late, batch=BATCH),
            "topology.checkpoint.location": str(home / "run" / "checkpoint"),
            "topology.spout.intake.tuples": BATCH,
            "topology.enable.message.timeouts": False,
        }
        runner = CrashRunner("tests.crash.deaths.job:topology", home / "run", conf=conf, start_timeout_s=300)
        report = runner.run(*faults)
        found = [f"never struck: {fault}" for fault in report.faults if fault not in report.struck]
        with server.client() as client:
            found += stream_problems(client, len(all_messages))
        return found + state_problems(conf, counts(all_messages), exactly=True)


@pytest.mark.parametrize(("points", "late"), [(HAND_OVER, False), (HAND_OVER, True)], ids=["soon", "late acks"])
def test_messages_count_once_when_the_driver_is_killed_at_the_hand_over_from_a_commit_to_the_acks(
    tmp_path: Path, redis_program: str, points: Sequence[FaultPoint], late: bool
) -> None:
    faults = [Fault(point, txid=txid) for txid, point in enumerate(points, 1)]
    assert problems(tmp_path, redis_program, faults, late=late) == []


def test_messages_count_once_when_a_driver_is_killed_while_it_recovers(tmp_path: Path, redis_program: str) -> None:
    faults = [Fault(FaultPoint.DECIDED, txid=1), *(Fault(point, nth=2) for point in IN_RECOVERY)]
    assert problems(tmp_path, redis_program, faults, late=True) == []


def test_messages_count_once_when_a_worker_dies_as_acker_or_while_it_asks_for_the_intake(
    tmp_path: Path, redis_program: str
) -> None:
    faults = [Fault(point, component=component, txid=txid) for txid, (component, point) in enumerate(WORKERS, 1)]
    assert problems(tmp_path, redis_program, faults, late=True) == []
