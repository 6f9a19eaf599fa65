"""The history of checkpoints, and all that failed."""

from __future__ import annotations

from typing import Any

from anchorbolt.ui.model.observation import Observation

MOST_WAVES = 300
"""Of one answer."""

_ONLY_IN_ONE = ("tasks", "graph")  # shown of one wave, not in lists


def waves(seen: Observation, last: int, *, only_failed: bool = False) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/waves`: the latest records of the history, newest first."""
    records = [each for each in seen.records if not only_failed or _has_failed(each)]
    shown = records[-last:][::-1]
    return {
        "total": len(records),
        "waves": [{name: value for name, value in each.items() if name not in _ONLY_IN_ONE} for each in shown],
    }


def wave(seen: Observation, txid: int) -> dict[str, Any] | None:
    """Return the answer of `/api/v1/topology/{id}/waves/{txid}`, with its tasks; None if the wave is not known."""
    found = (each for each in reversed(seen.records) if each["kind"] == "wave" and each["txid"] == txid)
    record = next(found, None)
    return None if record is None else dict(record)


def failures(seen: Observation) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/failures`, newest first."""
    rounds = [
        {"at": each["at"], "txid": each["txid"], "rounds": each.get("rounds", 1), "reasons": each["failures"]}
        for each in reversed(seen.records)
        if each.get("failures")
    ]
    ends = [
        {"at": each["at"], "txid": each["txid"], "status": each.get("status", ""), "error": each.get("error", "")}
        | {"text": each.get("failure", "")}
        for each in reversed(seen.records)
        if each["kind"] == "end" and each.get("failure")
    ]
    return {
        "run": seen.failure,
        "rounds": rounds,
        "ends": ends,
        "messages": list(seen.failed_messages),
        "deadLetters": sum(each.get("dead_letters", 0) for each in seen.records),
    }


def _has_failed(record: Any) -> bool:
    return record.get("rounds", 1) > 1 or record.get("status") == "FAILED" or bool(record.get("dead_letters"))
