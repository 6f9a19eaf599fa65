"""Runs of the job with time: killed at named points, then run once more when all its timers are due."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from anchorbolt.config import load_conf
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.state_backends.timed.expiry import live
from anchorbolt.testing import CrashReport, CrashRunner, Fault, FaultAction, FaultPoint, Victim
from anchorbolt.testing.conformance.base import entries
from tests.crash.plans import AFTER_A_FAILURE, IN_RECOVERY
from tests.crash.runs import CHECKPOINT, START_TIMEOUT_S
from tests.crash.timed.job import DELAY_S, NAME, expected_rows, expected_state, write_waves

JOB = "tests.crash.timed.job:topology"
_ENCODING = EntryEncoding(NAME, MsgpackCodec(), MsgpackCodec())
_LARGE_WAVE = 2


class TimedRun(NamedTuple):
    """A run that came to its end, and what is wrong with it."""

    report: CrashReport
    wrong: list[str]


def timed_kills(points: Sequence[FaultPoint], victim: Victim) -> Iterator[Fault]:
    """Yield faults that kill `victim` at each of these points, now in a wave of tuples and now in one of timers."""
    for number, point in enumerate(points, 1):
        if point in IN_RECOVERY:
            yield Fault(point, nth=1 if victim is not Victim.WORKER else 2, victim=victim)
        elif point is FaultPoint.SLICE_APPLIED:  # only a large wave has it
            yield Fault(point, victim=victim)
        elif point in AFTER_A_FAILURE:
            yield Fault(FaultPoint.TASK_ALIGNED, FaultAction.RAISE, component="count", nth=2 * number)
            yield Fault(point, victim=victim)
        else:
            yield Fault(point, nth=number, victim=victim)


def kill_timed(
    folder: Path, settings: Mapping[str, Any], points: Sequence[FaultPoint], victim: Victim = Victim.HERE
) -> TimedRun:
    """Run the job on the store of these settings, with a kill at each of these points.

    Raises:
        CrashTestError: The job could not be brought to its end.
    """
    large = _LARGE_WAVE if FaultPoint.SLICE_APPLIED in points else None
    waves = write_waves(folder, len(points) + 3, large)
    conf = {**settings, CHECKPOINT: str(folder / "checkpoint")}
    arguments = ["--master", "local[2]"]
    runner = CrashRunner(JOB, folder, conf=conf, arguments=arguments, start_timeout_s=START_TIMEOUT_S)
    report = runner.run(*timed_kills(points, victim))
    time.sleep(DELAY_S)
    runner.run()  # the last timers
    wrong = timed_differences(folder, conf, waves)
    wrong += [f"never struck: {fault}" for fault in report.faults if fault not in report.struck]
    return TimedRun(report, wrong)


def timed_differences(folder: Path, conf: Mapping[str, Any], waves: Sequence[Sequence[str]]) -> list[str]:
    """Say in which ways the state and the sink are not what they must be."""
    found = []
    provider = provider_from(load_conf(conf).settings, shared_by_processes=True, shared_by_machines=False)
    state: dict[str, Any] = {}
    now = int(time.time() * 1000)
    for namespace in sorted(provider.namespaces()):
        with closing(provider.open(namespace)) as storage:
            if storage.head().attempts:
                found.append(f"{namespace} keeps leftovers of dead attempts")
            if namespace.startswith(f"{NAME}:count-"):
                for entry in live(entries(storage).items(), now):
                    key = _ENCODING.key_from(entry.key)
                    state[key] = _ENCODING.value_from(key, _ENCODING.cached_value(key, entry.value))
    wanted_state, wanted = expected_state(waves), expected_rows(waves)
    if state != wanted_state:
        found.append(f"the state has, and must have: {sorted(set(state.items()) ^ set(wanted_state.items()))[:20]}")
    rows = Counter(
        (row["word"], row["kind"], row["number"])
        for path in (folder / "out").glob("*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    )
    if rows != wanted:
        found.append(f"timers that have not fired: {list((wanted - rows).items())[:20]}")
        found.append(f"timers that have fired too often: {list((rows - wanted).items())[:20]}")
    return found
