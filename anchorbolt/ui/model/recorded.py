"""Observes a run that has ended, by the records of its history."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from statistics import quantiles
from typing import Any

from anchorbolt.engine.sources.wave_report import PHASES
from anchorbolt.observe.figures.tasks import Figure
from anchorbolt.observe.figures.windows import WINDOWS
from anchorbolt.observe.history.failures import MOST_LETTERS, has_failed, letters_in, timed_out_in
from anchorbolt.observe.history.graph import Graph
from anchorbolt.observe.history.records import Record
from anchorbolt.ui.model.failures import messages_shown
from anchorbolt.ui.model.observation import ComponentFigures, Now, Observation, Recovery, WindowFigures

_MOST_RECORDS = 300
_MOST_FAILED_RECORDS = 100


class RecordedRun:
    """A topology whose history is read again and again: another process may run it."""

    def __init__(self, location: str, read: Callable[[], Iterable[Record]]) -> None:
        """`read` yields the records at a checkpoint location, oldest first; it may raise `OSError`."""
        self._location = location
        self._read = read
        self._records: Sequence[Record] = ()

    def observe(self) -> Observation:
        """Return what the history tells now; what it told last if it cannot be read."""
        try:
            self._records = list(self._read())
        except OSError:
            if not self._records:
                raise
        return observed(self._records, self._location)


def observed(records: Sequence[Record], location: str) -> Observation:
    """Return what is known from the records at a location. Windows end with the last record."""
    last: Record = records[-1] if records else {"kind": "", "at": time.time(), "generation": 0, "txid": -1}
    starts = [each for each in records if each["kind"] == "start"]
    start = next((each for each in reversed(starts) if each["generation"] == last["generation"]), None)
    began = last["at"] if start is None else start["at"]
    waves = [each for each in records if each["kind"] == "wave"]
    is_end = last["kind"] == "end"
    latest = waves[-1] if waves else {}
    graph = next((each["graph"] for each in reversed(starts) if each.get("graph")), None) or _without_streams(waves)
    return Observation(
        at=last["at"],
        topology=str(graph["topology"]),
        status=str(last.get("status", "UNKNOWN")) if is_end else "UNKNOWN",
        is_live=False,
        uptime_s=last["at"] - began,
        generation=last["generation"],
        txid=last["txid"],
        graph=graph,
        records=records[-_MOST_RECORDS:],
        window=cache(lambda window: _window(waves, graph, window, last["at"])),
        now=Now(
            throttled=str(latest.get("throttled", "")),
            offsets_behind=latest.get("offsets_behind"),
            files_waiting=latest.get("files_waiting"),
        ),
        failed_records=[each for each in records if has_failed(each)][-_MOST_FAILED_RECORDS:],
        failed_messages=messages_shown((each["txid"], each.get("messages", ())) for each in reversed(waves)),
        timed_out=timed_out_in(waves),
        letters=letters_in(waves)[-MOST_LETTERS:],
        dead_letters=int(_sum(waves, "dead_letters")),
        failure={"error": str(last.get("error", "")), "text": str(last["failure"])} if last.get("failure") else None,
        recovery=None if start is None else Recovery(str(start.get("action", "")), start.get("recovery_ms", 0.0)),
        facts={"checkpoint": location},
    )


def _without_streams(waves: Sequence[Record]) -> Graph:
    """Return the graph of a history that does not tell it: its components, without an order."""
    names = dict.fromkeys(name for wave in waves for name in wave.get("executed", ()))
    components = [{"id": name, "kind": "bolt", "type": "", "level": 0, "tasks": 1, "inputs": []} for name in names]
    return {"topology": "history", "components": components}


def _window(waves: Sequence[Record], graph: Graph, window: str, end: float) -> WindowFigures:
    begin = end - WINDOWS.get(window, float("inf"))
    found = [each for each in waves if each["at"] > begin]
    executed, emitted = Counter[str](), Counter[str]()
    for wave in found:
        executed.update(wave.get("executed", {}))
        emitted.update(wave.get("emitted", {}))
    spouts = [each["id"] for each in graph["components"] if each["kind"] == "spout"]
    seconds = found[-1]["at"] - found[0]["at"] + found[0].get("total_ms", 0) / 1000 if found else 0.0
    return WindowFigures(
        seconds=max(seconds, 1e-3),
        components={
            each["id"]: ComponentFigures({Figure.EXECUTED: executed[each["id"]], Figure.EMITTED: emitted[each["id"]]})
            for each in graph["components"]
        },
        transferred={},
        # The records have the messages of all spouts together: they are of no single one, unless there is only one.
        messages={spouts[0] if len(spouts) == 1 else "": {name: _sum(found, name) for name in _MESSAGES}},
        waves={
            "waves": len(found),
            "rounds_failed": _sum(found, "rounds") - len(found),
            "losses": _sum(found, "losses"),
            "bytes_shuffled": _sum(found, "bytes_shuffled"),
            "wave_ms": _sum(found, "total_ms"),
        },
        phases_ms={phase: _quantiles([each.get("phases_ms", {}).get(phase, 0) for each in found]) for phase in PHASES},
    )


_MESSAGES = ("acked", "failed", "dead_letters")


def _sum(waves: Sequence[Record], name: str) -> float:
    return float(sum(each.get(name, 0) for each in waves))


def _quantiles(values: Sequence[float]) -> Mapping[str, Any]:
    if len(values) < 2:
        return {"count": len(values), "p50": (*values, 0)[0], "p99": (*values, 0)[0]}
    parts = quantiles(values, n=100, method="inclusive")
    return {"count": len(values), "p50": round(parts[49], 3), "p99": round(parts[98], 3)}
