"""The hourly count as a dataflow of Bytewax; `hourly/sides.py` runs it, in an environment that has Bytewax."""

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window
from bytewax.outputs import DynamicSink, StatelessSinkPartition

sys.path.append(str(Path(__file__).resolve().parent))

from bytewax_word_count import Files

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UTC = timezone.utc
_Closed = tuple[str, tuple[int, int]]


class ContinuedClock(EventClock[datetime]):
    """Leaves open windows open at the end of a run: the next one continues them."""

    def build(self, resume_state: Any) -> Any:
        logic = super().build(resume_state)
        logic.on_eof = logic.on_notify
        return logic


class Rows(DynamicSink[_Closed], StatelessSinkPartition[_Closed]):
    """Writes key, hour in ms, and count to a file of each process."""

    def __init__(self, out: Path, number: int, hour_ms: int) -> None:
        self._path = out / f"{number}.csv"
        self._hour_ms = hour_ms

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[_Closed]:
        self._file = self._path.open("a")
        return self

    def write_batch(self, items: list[_Closed]) -> None:
        self._file.writelines(f"{key},{window * self._hour_ms},{count}\n" for key, (window, count) in items)
        self._file.flush()


def parsed(line: str) -> tuple[str, datetime]:
    key, at = line.split(",")
    return key, datetime.fromtimestamp(int(at) / 1000, _UTC)


def itself(at: datetime) -> datetime:
    return at


def never(closes_at: datetime) -> None:
    """The events are in the past: by default, Bytewax would look for closed windows all the time."""


def one_more(count: int, at: datetime) -> int:
    return count + 1


def both(one: int, other: int) -> int:
    return one + other


def dataflow(text: str, times: str, out: str, number: int, processes: int, hour_ms: int, lag_ms: int) -> Dataflow:
    flow = Dataflow("hourly")
    lines = op.input("events", flow, Files(Path(text), Path(times), number, processes))
    hours = fold_window(
        "hours",
        op.map("parse", lines, parsed),
        ContinuedClock(itself, timedelta(milliseconds=lag_ms), to_system_utc=never),
        TumblingWindower(length=timedelta(milliseconds=hour_ms), align_to=_EPOCH),
        int,
        one_more,
        both,
        ordered=False,
    )
    op.output("out", hours.down, Rows(Path(out), number, hour_ms))
    return flow
