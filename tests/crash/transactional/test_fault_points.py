"""At named points of both phases: SIGKILL of the driver or of a worker, and an older driver that falls asleep."""

import json
import signal
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from anchorbolt.faults.injection import FAULTS_VARIABLE, FaultFolder
from anchorbolt.testing import Fault, FaultAction, FaultPoint, Victim
from tests.cli.command import Command, run_arguments, wait_until
from tests.crash.plans import IN_RECOVERY, OF_KAFKA
from tests.crash.transactional.job import write_batches
from tests.crash.transactional.runs import (
    CHAINED_JOB,
    JOB,
    PENDING,
    conf_of,
    differences,
    driver_kills,
    killed,
    kills_in_commit,
    kills_in_processing,
)
from tests.servers.server_process import stop_process
from tests.support.stores import settings_of, store_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ON_DRIVER = tuple(point for point in FaultPoint if point.on_driver and point is not OF_KAFKA)
IN_EACH_PHASE = [
    Fault(FaultPoint.HAND_OFF_WRITTEN, component="count", task_index=0, txid=2),
    Fault(FaultPoint.SEALED, component="count", task_index=0, txid=3),
    Fault(FaultPoint.BATCH_PROCESSED, txid=4),
    Fault(FaultPoint.DECIDED, txid=5),
]
HALF = len(ON_DRIVER) // 2


def thorough(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.thorough)


def case(provider: str, name: str, faults: Sequence[Fault], pending: int = PENDING, *, is_short: bool = False) -> Any:
    marks = [] if is_short else [pytest.mark.thorough]
    return pytest.param(provider, faults, pending, id=f"{provider}-{name}", marks=marks)


@pytest.mark.parametrize(
    ("provider", "faults", "pending"),
    [
        case("redis", "workers-and-driver", IN_EACH_PHASE, 1, is_short=True),
        *(
            case(provider, part, list(driver_kills(points)))
            for provider in ("sqlite", "redis", "redis-cluster", "hbase")
            for part, points in (("driver-1", ON_DRIVER[:HALF]), ("driver-2", ON_DRIVER[HALF:]))
        ),
        *(
            case(provider, name, faults, pending)
            for provider in ("sqlite", "redis", "redis-cluster", "hbase")
            for name, faults, pending in (
                ("workers-processing", kills_in_processing(), PENDING),
                ("workers-commit", kills_in_commit(), 1),
            )
        ),
        case("redis", "driver-at-workers-points", kills_in_processing(Victim.DRIVER)),
    ],
)
def test_a_kill_at_each_point_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, provider: str, faults: Sequence[Fault], pending: int
) -> None:
    with store_of(provider, tmp_path) as store:
        _, wrong = killed(tmp_path / "run", settings_of(store), faults, pending)
    assert wrong == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("provider", "faults", "pending"),
    [
        case("sqlite", "workers-and-driver", IN_EACH_PHASE, 1, is_short=True),
        case("redis", "workers-processing", kills_in_processing()),
        case("sqlite", "workers-commit", kills_in_commit(), 1),
    ],
)
def test_a_kill_at_each_point_loses_nothing_and_counts_nothing_twice_where_bolts_are_chained(
    tmp_path: Path, provider: str, faults: Sequence[Fault], pending: int
) -> None:
    with store_of(provider, tmp_path) as store:
        _, wrong = killed(tmp_path / "run", settings_of(store), faults, pending, CHAINED_JOB)
    assert wrong == []


@pytest.mark.parametrize(
    ("provider", "point"),
    [
        thorough("redis", FaultPoint.BATCH_PROCESSED),
        thorough("sqlite", FaultPoint.METADATA_STORED),
        thorough("redis-cluster", FaultPoint.BATCH_BEGUN),
        thorough("hbase", FaultPoint.ROUND_ENDED),
    ],
)
def test_a_driver_that_slept_while_a_newer_one_ran_is_fenced_and_has_no_effect(
    tmp_path: Path, provider: str, point: FaultPoint
) -> None:
    with store_of(provider, tmp_path) as store:
        folder, faults = tmp_path / "run", FaultFolder(tmp_path / "faults")
        batches = write_batches(folder, 6)
        conf = conf_of(folder, settings_of(store))
        faults.write([Fault(point, FaultAction.HANG, txid=None if point in IN_RECOVERY else 2)])
        (tmp_path / "conf.json").write_text(json.dumps(conf))
        command = run_arguments(JOB, "--until-empty", "--conf", str(tmp_path / "conf.json"), "--master", "local[4]")
        with closing(Command(command, directory=folder, env={FAULTS_VARIABLE: str(faults.path)})) as older:
            wait_until(
                lambda: any(event["event"] == "fault" for event in faults.events()) or older.has_ended,
                f"asleep: {older!r}",
            )
            stop_process(older.pid)  # its JVM and its workers go on
            with closing(Command(command, directory=folder)) as newer:
                assert newer.end() == 0, repr(newer)
            assert differences(folder, conf, batches) == []
            faults.release()
            older.send(signal.SIGCONT)
            assert older.end() == STATE_REFUSED, repr(older)
            assert differences(folder, conf, batches) == []
