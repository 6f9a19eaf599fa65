"""The records of a history, as JSON objects: one for each committed wave, and for each start and end of a driver. Pure.

Every record has `kind`, `at` (seconds since 1970), `generation` and `txid`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from anchorbolt.checkpoint.failed_round import FailedRound
from anchorbolt.checkpoint.spout import RecoveryReport
from anchorbolt.config.masking import Masking
from anchorbolt.engine.driver.rounds import PHASES, WaveReport
from anchorbolt.engine.history.failures import Letter, letters_in_record, raised_in
from anchorbolt.engine.history.graph import Graph
from anchorbolt.engine.task.messages import TaskReport

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
        record |= {"error": type(failure).__name__, "failure": str(failure)[:_MOST_TEXT]}
    return record


def wave_record(
    generation: int,
    report: WaveReport,
    tasks: Sequence[TaskReport],
    at: float,
    *,
    failed_rounds: Sequence[FailedRound] = (),
    letters: Sequence[Letter] = (),
) -> Record:
    """Return the record of a committed wave, with its failed rounds and dead letters."""
    record = {
        "kind": "wave",
        "at": at,
        "generation": generation,
        "txid": report.txid,
        "batch_id": report.batch_id,
        "total_ms": round(report.total_ms, 1),
        "phases_ms": {phase: round(getattr(report, f"{phase}_ms"), 1) for phase in PHASES},
        "rounds": report.rounds,
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
        "throttled": report.throttled,
        "offsets_behind": report.offsets_behind,
        "tasks": _spreads(tasks),
    }
    if len(encoded(record)) > MOST_BYTES:  # a topology of hundreds of components
        record["tasks"] = record["executed"] = record["emitted"] = {}
    if len(encoded(record)) > MOST_BYTES:  # long texts, which JSON makes up to six times as long
        record |= {"failures": list(report.round_failures[:1]), "raised": None, "letters": []}
    return record


def encoded(record: Record) -> bytes:
    """Return a record as a line of JSON, with its end."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def without_secrets(record: Record, masking: Masking) -> Record:
    """Return a record whose texts, which may be those of a user's exception, hold no secret of the configuration."""
    if not any(record.get(name) for name in ("failures", "raised", "letters", "failure")):
        return record
    masked: Record = json.loads(masking.without_secrets(json.dumps(record).encode()))
    return masked


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
        if isinstance(record, dict) and _is_whole(record):
            records.append(record)
    return records


def _is_whole(record: dict[str, Any]) -> bool:
    return record.get("kind") in ("start", "wave", "end") and all(
        type(record.get(name)) in (int, float) for name in ("at", "generation", "txid")
    )


def _spreads(tasks: Iterable[TaskReport]) -> dict[str, Any]:
    """Return, by component, how its tasks differ: the least, the median and the most of each quantity."""
    by_component: defaultdict[str, list[TaskReport]] = defaultdict(list)
    first = float("inf")
    for task in tasks:
        by_component[task.component].append(task)
        first = min(first, task.began_at)
    return {
        component: {
            "tasks": len(found),
            "start_ms": _spread((each.began_at - first) * 1000 for each in found),
            "aligned_ms": _spread(each.aligned_ms for each in found),
            "prepare_ms": _spread(each.prepare_ms for each in found),
            "execute_ms": _spread(each.execute_ms for each in found),
            "executed": _spread(each.tuples_in for each in found),
            "bytes_staged": _spread(each.outcome.counters.bytes_staged for each in found),
        }
        for component, found in by_component.items()
    }


def _spread(values: Iterable[float]) -> list[float]:
    ordered = sorted(values)
    return [round(each, 1) for each in (ordered[0], median(ordered), ordered[-1])]
