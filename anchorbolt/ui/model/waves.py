"""The history of checkpoints."""

from __future__ import annotations

from msgspec import UNSET, structs

from anchorbolt.observe.history.records import Record, Start, Wave
from anchorbolt.ui.answers import Waves
from anchorbolt.ui.model.observation import Observation

MOST_WAVES = 300
"""Of one answer."""


def waves(seen: Observation, last: int, *, only_failed: bool = False) -> Waves:
    """Return the answer of `/api/v1/topology/{id}/waves`: the latest records of the history, newest first."""
    records = [each for each in seen.records if not only_failed or each.has_failed]
    return Waves(total=len(records), waves=[_in_list(each) for each in records[-last:][::-1]])


def _in_list(record: Record) -> Record:
    if isinstance(record, Wave):
        return structs.replace(record, tasks=UNSET)
    return structs.replace(record, graph=UNSET) if isinstance(record, Start) else record


def wave(seen: Observation, txid: int) -> Wave | None:
    """Return the answer of `/api/v1/topology/{id}/waves/{txid}`, with its tasks; None if the wave is not known."""
    waves = (each for each in reversed(seen.records) if isinstance(each, Wave) and each.txid == txid)
    return next(waves, None)
