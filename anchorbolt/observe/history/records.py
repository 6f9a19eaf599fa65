"""The records of a history, as JSON objects: one for each committed wave, and for each start and end of a driver. Pure.

Every record has `kind`, `at` (seconds since 1970), `generation` and `txid`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from anchorbolt.checkpoint.coordinator import FAILURES_KEPT, RecoveryReport
from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.config.masking import Masking
from anchorbolt.engine.sources.wave_report import PHASES, WaveReport
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.observe.history.failures import (
    Letter,
    letters_in_record,
    messages_in_record,
    raised_in,
    timed_out_in_record,
)
from anchorbolt.observe.history.graph import Graph
from anchorbolt.observe.history.shapes import is_whole
from anchorbolt.util.messages import bounded

Record = Mapping[str, Any]

MOST_BYTES = 64 << 10
"""Of one record, as JSON."""

_MOST_TEXT = 2000


def start_record(recovery: RecoveryReport, graph: Graph, at: float) -> Record:
    """Return the record of a driver that has recovered, and of the graph that it runs."""
    record = {
        "kind": "start",
        "at": at,
        "generation": recovery.generation,
        "txid": recovery.txid,
        "action": recovery.action,
        "recovery_ms": round(recovery.ms, 1),
        "graph": graph,
    }
    if len(encoded(record)) > MOST_BYTES:  # a topology of hundreds of components
        record["graph"] = None
    return record


def end_record(generation: int, txid: int, status: str, failure: BaseException | None, at: float) -> Record:
    """Return the record of the end of a run; `txid` is the last committed one."""
    record = {"kind": "end", "at": at, "generation": generation, "txid": txid, "status": status}
    if failure is not None:
        record |= {"error": type(failure).__name__, "failure": bounded(str(failure), _MOST_TEXT)}
    return record


def wave_record(
    generation: int,
    report: WaveReport,
    tasks: Sequence[TaskReport],
    at: float,
    *,
    failed_ms: float = 0.0,
    failed_rounds: Sequence[FailedRound] = (),
    letters: Sequence[Letter] = (),
) -> Record:
    """Return the record of a committed wave, with its failed rounds, the time that they took, and its dead letters."""
    record = {
        "kind": "wave",
        "at": at,
        "generation": generation,
        "txid": report.txid,
        "batch_id": report.batch_id,
        "total_ms": round(report.total_ms, 1),
        "failed_ms": round(failed_ms, 1),
        "phases_ms": {phase: round(getattr(report, f"{phase}_ms"), 1) for phase in PHASES},
        "rounds": report.rounds,
        "repeats": _repeats(report),
        "losses": report.losses,
        "failures": list(report.round_failures),
        "raised": raised_in(failed_rounds),
        "executed": dict(report.tuples_in),
        "emitted": dict(report.tuples_out),
        "bytes_shuffled": report.bytes_shuffled,
        "keys_read": report.keys_read,
        "keys_staged": report.keys_staged,
        "bytes_staged": sum(task.outcome.counters.bytes_staged for task in tasks),
        "acked": sum(report.messages_acked.values()),
        "failed": sum(report.messages_failed.values()),
        "dead_letters": sum(report.dead_letters.values()),
        "letters": letters_in_record(letters),
        "messages": messages_in_record(report.failures),
        "timed_out": timed_out_in_record(report.messages_timed_out),
        "throttled": report.throttled,
        "offsets_behind": report.offsets_behind,
        "files_waiting": report.files_waiting,
        "tasks": _spreads(tasks),
    }
    if len(encoded(record)) > MOST_BYTES:  # a topology of hundreds of components
        record["tasks"] = record["executed"] = record["emitted"] = {}
    if len(encoded(record)) > MOST_BYTES:  # long texts, which JSON makes up to six times as long
        record |= {"failures": list(report.round_failures[:1]), "raised": None, "letters": [], "messages": []}
    return record


def _repeats(report: WaveReport) -> int:
    """Return how many rounds were run again to leave out failed messages; 0 if too many failed for other reasons."""
    told = len(report.round_failures)
    return report.rounds - 1 - told if told < FAILURES_KEPT else 0


def encoded(record: Record) -> bytes:
    """Return a record as a line of JSON, with its end."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def without_secrets(record: Record, masking: Masking) -> Record:
    """Return a record whose texts, which may be those of a user's exception, hold no secret of the configuration."""
    texts = {
        name: record[name] for name in ("failures", "raised", "letters", "messages", "failure") if record.get(name)
    }
    return {**record, **masking.without_secrets(texts)} if texts else record


def decoded(lines: Iterable[bytes]) -> list[Record]:
    """Return the records of these lines, without those that are damaged."""
    records: list[Record] = []
    for line in lines:
        if len(line) > MOST_BYTES:
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if is_whole(record):
            records.append(record)
    return records


_SPREAD = ("start_ms", "aligned_ms", "prepare_ms", "stage_ms", "seal_ms", "execute_ms", "executed", "bytes_staged")
# In the same order; a getter of all at once is several times as fast as a getter of each.
_QUANTITIES: Callable[[TaskReport], tuple[float, ...]] = attrgetter(
    *("began_at", "aligned_ms", "prepare_ms", "stage_ms", "seal_ms", "execute_ms", "tuples_in"),
    "outcome.counters.bytes_staged",
)


def _spreads(tasks: Sequence[TaskReport]) -> dict[str, Any]:
    """Return, by component, how its tasks differ: the least, the median and the most of each quantity."""
    rows: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
    for task in tasks:
        rows[task.task[0]].append(_QUANTITIES(task))
    first = min((task.began_at for task in tasks), default=0.0)
    return {component: _spreads_of(found, first) for component, found in rows.items()}


def _spreads_of(rows: Sequence[tuple[float, ...]], first: float) -> dict[str, Any]:
    began_at, *others = map(sorted, zip(*rows, strict=True))
    ordered = [[(each - first) * 1000 for each in began_at], *others]
    return {"tasks": len(rows), **dict(zip(_SPREAD, map(_spread, ordered), strict=True))}


def _spread(ordered: Sequence[float]) -> list[float]:
    middle = len(ordered) // 2
    median = (ordered[middle] + ordered[-middle - 1]) / 2
    return [round(each, 2) for each in (ordered[0], median, ordered[-1])]
