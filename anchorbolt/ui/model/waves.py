"""The history of checkpoints."""

from __future__ import annotations

from typing import Any

from anchorbolt.observe.history.failures import has_failed
from anchorbolt.ui.model.observation import Observation

MOST_WAVES = 300
"""Of one answer."""

_ONLY_IN_ONE = ("tasks", "graph")  # shown of one wave, not in lists


def waves(seen: Observation, last: int, *, only_failed: bool = False) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/waves`: the latest records of the history, newest first."""
    records = [each for each in seen.records if not only_failed or has_failed(each)]
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
