"""Observes a run by the records of its history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from statistics import quantiles

from anchorbolt.engine.sources.wave_report import PHASES
from anchorbolt.observe.figures.tasks import Figure
from anchorbolt.observe.figures.windows import WINDOWS
from anchorbolt.observe.history.failures import MOST_LETTERS, letters_in, timed_out_in
from anchorbolt.observe.history.records import Change, End, Graph, GraphComponent, Record, Start, Wave
from anchorbolt.ui.answers import Failure, Now, Quantiles, Recovery
from anchorbolt.ui.model.history import messages_shown
from anchorbolt.ui.model.observation import ComponentFigures, Observation, WindowFigures

_MOST_RECORDS = 300
_MOST_FAILED_RECORDS = 100


class RecordedRun:
    """A topology whose history is read each time: another process may run it."""

    def __init__(self, location: str, read: Callable[[], Iterable[Record]]) -> None:
        """`read` yields the records at a checkpoint location, oldest first; it may raise `OSError`."""
        self._location = location
        self._read = read
        self._records: Sequence[Record] = ()

    def observe(self) -> Observation:
        """Read the history and observe it; if it cannot be read, use the records read last."""
        try:
            self._records = list(self._read())
        except OSError:
            if not self._records:
                raise
        return observed(self._records, self._location)


def observed(records: Sequence[Record], location: str) -> Observation:
    """Return the observation of the records at a location. Windows end with the last record."""
    of_runs = [each for each in records if not isinstance(each, Change)]
    last = of_runs[-1] if of_runs else End(at=time.time(), generation=0, txid=-1)
    starts = [each for each in records if isinstance(each, Start)]
    start = next((each for each in reversed(starts) if each.generation == last.generation), None)
    waves = [each for each in records if isinstance(each, Wave)]
    end = last if isinstance(last, End) else None
    latest = waves[-1] if waves else None
    graph = next((each.graph for each in reversed(starts) if each.graph), None) or _without_streams(waves)
    return Observation(
        at=last.at,
        topology=graph.topology,
        status="UNKNOWN" if end is None or not end.status else end.status,
        is_live=False,
        uptime_s=0.0 if start is None else last.at - start.at,
        generation=last.generation,
        txid=last.txid,
        graph=graph,
        records=records[-_MOST_RECORDS:],
        window=cache(lambda window: _window(waves, graph, window, last.at)),
        now=Now()
        if latest is None
        else Now(throttled=latest.throttled, offsets_behind=latest.offsets_behind, files_waiting=latest.files_waiting),
        failed_records=[each for each in records if each.has_failed][-_MOST_FAILED_RECORDS:],
        failed_messages=messages_shown((each.txid, each.messages) for each in reversed(waves)),
        timed_out=timed_out_in(waves),
        letters=letters_in(waves)[-MOST_LETTERS:],
        dead_letters=sum(each.dead_letters for each in waves),
        failure=None if end is None or not end.failure else Failure(error=end.error, text=end.failure),
        recovery=None if start is None else Recovery(action=start.action, ms=start.recovery_ms),
        facts={"checkpoint": location},
    )


def _without_streams(waves: Sequence[Wave]) -> Graph:
    """Return a graph for a history without one: its components, without an order."""
    names = dict.fromkeys(name for wave in waves for name in wave.executed)
    return Graph("history", [GraphComponent(id=name, kind="bolt", type="", level=0, tasks=1) for name in names])


def _window(waves: Sequence[Wave], graph: Graph, window: str, end: float) -> WindowFigures:
    begin = end - WINDOWS.get(window, float("inf"))
    found = [each for each in waves if each.at > begin]
    executed, emitted = Counter[str](), Counter[str]()
    for wave in found:
        executed.update(wave.executed)
        emitted.update(wave.emitted)
    spouts = [each.id for each in graph.components if each.kind == "spout"]
    seconds = found[-1].at - found[0].at + found[0].total_ms / 1000 if found else 0.0
    return WindowFigures(
        seconds=max(seconds, 1e-3),
        components={
            each.id: ComponentFigures({Figure.EXECUTED: executed[each.id], Figure.EMITTED: emitted[each.id]})
            for each in graph.components
        },
        transferred={},
        # The records count the messages of all spouts together: name the spout only if there is just one.
        messages={spouts[0] if len(spouts) == 1 else "": {name: _sum(found, name) for name in _MESSAGES}},
        waves={
            "waves": len(found),
            "rounds_failed": _sum(found, "rounds") - len(found),
            "losses": _sum(found, "losses"),
            "bytes_shuffled": _sum(found, "bytes_shuffled"),
            "wave_ms": _sum(found, "total_ms"),
        },
        phases_ms={phase: _quantiles([each.phases_ms.get(phase, 0) for each in found]) for phase in PHASES},
    )


_MESSAGES = ("acked", "failed", "dead_letters")


def _sum(waves: Sequence[Wave], name: str) -> float:
    return float(sum(getattr(each, name) for each in waves))


def _quantiles(values: Sequence[float]) -> Quantiles:
    if len(values) < 2:
        return Quantiles(count=len(values), p50=(*values, 0)[0], p99=(*values, 0)[0])
    parts = quantiles(values, n=100, method="inclusive")
    return Quantiles(count=len(values), p50=round(parts[49], 3), p99=round(parts[98], 3))
