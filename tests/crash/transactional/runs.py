"""Runs of the job of this folder that are killed at named points, and what they must leave."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.config import load_conf
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.testing import CrashReport, CrashRunner, Fault, FaultPoint, Victim
from tests.crash.outcome import rows_in, state_of
from tests.crash.plans import kills
from tests.crash.transactional.job import NAME, write_batches

JOB = "tests.crash.transactional.job:topology"
CHAINED_JOB = "tests.crash.transactional.job:chained"
PENDING = 3  # batches, but in the runs in which a fault strikes in the commit phase of one batch at a time

# By point, at which component: in the processing phase, and in the commit phase. There, a stateful committer reaches
# some of its points for the second time.
IN_PROCESSING: tuple[tuple[FaultPoint, str], ...] = (
    (FaultPoint.TASK_BEGUN, "words"),
    (FaultPoint.TASK_PREPARED, "words"),
    (FaultPoint.TASK_BEGUN, "partial"),
    (FaultPoint.TASK_EXECUTED, "partial"),
    (FaultPoint.TASK_ALIGNED, "partial"),
    (FaultPoint.TASK_PREPARED, "partial"),
    (FaultPoint.HAND_OFF_WRITTEN, "count"),
    (FaultPoint.HAND_OFF_WRITTEN, "global"),
)
IN_COMMIT: tuple[tuple[FaultPoint, str], ...] = (
    (FaultPoint.TASK_BEGUN, "count"),
    (FaultPoint.TASK_EXECUTED, "count"),
    (FaultPoint.TASK_ALIGNED, "count"),
    (FaultPoint.SLICE_STAGED, "count"),
    (FaultPoint.STAGED, "count"),
    (FaultPoint.SEALED, "count"),
    (FaultPoint.TASK_PREPARED, "count"),
    (FaultPoint.TASK_PREPARED, "global"),
    (FaultPoint.SINK_FILE_BEGUN, "out"),
    (FaultPoint.SINK_FILE_WRITTEN, "out"),
)
_IN_BOTH = (FaultPoint.TASK_BEGUN, FaultPoint.TASK_ALIGNED, FaultPoint.TASK_PREPARED)


def kills_in_processing(victim: Victim = Victim.HERE) -> list[Fault]:
    """Return kills at each point of the processing phase that a task reaches, each in a batch of its own."""
    return [
        Fault(point, component=component, task_index=0, txid=txid, victim=victim)
        for txid, (point, component) in enumerate(IN_PROCESSING, 2)
    ]


def kills_in_commit(victim: Victim = Victim.HERE) -> list[Fault]:
    """Return kills at each point of the commit phase that a task reaches, each in a batch of its own.

    For one pending batch: others would begin their processing phases again, and reach their points once more.
    """
    return [
        Fault(point, component=component, task_index=0, txid=txid, nth=1 + (point in _IN_BOTH), victim=victim)
        for txid, (point, component) in enumerate(IN_COMMIT, 2)
    ]


def driver_kills(points: Sequence[FaultPoint], victim: Victim = Victim.HERE) -> Iterator[Fault]:
    """Return kills at each of the driver's points, the n-th one in batch n + 1.

    Where a round has to fail, it fails in the commit phase: only there the stateful committer executes.
    """
    return kills(points, victim, first_txid=2, failing=FaultPoint.TASK_EXECUTED)


def conf_of(folder: Path, settings: Mapping[str, Any], pending: int = PENDING) -> dict[str, Any]:
    return {
        **settings,
        "topology.checkpoint.location": str(folder / "checkpoint"),
        "topology.max.spout.pending": pending,
    }


def killed(
    folder: Path, settings: Mapping[str, Any], faults: Sequence[Fault], pending: int = PENDING, job: str = JOB
) -> tuple[CrashReport, list[str]]:
    """Run the job on the store of these settings with these faults; return what is wrong after its end.

    Raises:
        CrashTestError: The job could not be brought to its end.
    """
    slices = [fault.txid for fault in faults if fault.point is FaultPoint.SLICE_APPLIED]
    batches = write_batches(folder, max((fault.txid or 0 for fault in faults), default=0) + 2, *slices)
    conf = conf_of(folder, settings, pending)
    runner = CrashRunner(job, folder, conf=conf, arguments=["--master", "local[4]"], start_timeout_s=900)
    report = runner.run(*faults)
    wrong = differences(folder, conf, batches)
    return report, wrong + [f"never struck: {fault}" for fault in report.faults if fault not in report.struck]


def differences(folder: Path, conf: Mapping[str, Any], batches: Sequence[Sequence[str]]) -> list[str]:
    """Say in which ways the outcome is not what it must be."""
    found = []
    total = Counter(word for batch in batches for word in batch)
    counts, leftovers = state_of(conf, "count", NAME)
    if leftovers:
        found.append(f"{', '.join(leftovers)} keep leftovers of dead attempts")
    if counts != total:
        found.append(f"the state holds {counts}, not {total}")
    with closing(sqlite3.connect(folder / "global.db")) as database:
        [row] = database.execute("SELECT value, txid FROM count").fetchall()
    if row != (total.total(), len(batches)):
        found.append(f"the value outside is {row}, not {total.total()}, of txid {len(batches)}")
    rows = rows_in(folder)
    if rows != expected_rows(batches):
        found.append(f"the sink holds {rows[:20]}, not {expected_rows(batches)[:20]}")
    provider = provider_from(load_conf(conf).settings, shared_by_processes=True, shared_by_machines=False)
    with closing(provider.open(record_namespace(NAME))) as storage:
        log = DecisionLog(storage)
        record, _ = log.load()
        slots = log.load_batches()
        log.close()
    if record is None or record.txid != len(batches):
        found.append(f"the record is of {record}, not of batch {len(batches)}")
    if len(slots) > PENDING:
        found.append(f"there is metadata in the slots {sorted(slots)}")
    return found


def expected_rows(batches: Sequence[Sequence[str]]) -> list[tuple[int, str, int]]:
    """Return what the sink must hold: the batch, each word in it, and its count then; sorted."""
    counts: Counter[str] = Counter()
    rows = []
    for txid, batch in enumerate(batches, 1):
        counts.update(batch)
        rows += [(txid, word, counts[word]) for word in set(batch)]
    return sorted(rows)
