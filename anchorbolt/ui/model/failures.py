"""All that failed: rounds, messages, dead letters, and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from anchorbolt.observe.history.failures import Message, raised_in, reasons_in
from anchorbolt.ui.model.observation import Observation

_MOST = 100
_NOBODY = {"component": "", "task": -1, "traceback": ""}


def failures(seen: Observation) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/failures`, newest first."""
    failed = seen.failed_records[::-1]
    current = seen.now.wave
    rounds = [_rounds(each["at"], each, each.get("raised")) for each in failed if reasons_in(each)]
    if current is not None and current.failures:
        told = {
            "txid": current.txid,
            "rounds": current.round,
            "repeats": 0,
            "failures": [each.reason for each in current.failures],
        }
        rounds.insert(0, _rounds(current.failures[-1].at, told, raised_in(current.failures)))
    ends = [
        {"at": each["at"], "txid": each["txid"], "status": each.get("status", ""), "error": each.get("error", "")}
        | {"text": each.get("failure", "")}
        for each in failed
        if each["kind"] == "end" and each.get("failure")
    ]
    return {
        "run": seen.failure,
        "rounds": rounds,
        "ends": ends,
        "messages": list(seen.failed_messages),
        "timedOut": [
            {"spout": spout, "component": component, "task": index, "messages": number}
            for (spout, (component, index)), number in sorted(seen.timed_out.items(), key=lambda each: -each[1])[:_MOST]
        ],
        "letters": list(seen.letters[::-1]),
        "deadLetters": seen.dead_letters,
    }


def _rounds(at: float, wave: Mapping[str, Any], raised: Mapping[str, Any] | None) -> dict[str, Any]:
    told = {"at": at, "txid": wave["txid"], "rounds": wave.get("rounds", 1), "reasons": reasons_in(wave)}
    return {**told, **(raised or _NOBODY)}


def messages_shown(newest_first: Iterable[tuple[int, Sequence[Message]]]) -> list[Mapping[str, Any]]:
    """Return the latest 100 failed messages, given those of each wave with its txid."""
    messages = (
        {
            **{name: each[name] for name in ("spout", "component", "task", "reason")},
            "txid": txid,
            "messageId": each["message"],
            "timedOut": each["timed_out"],
        }
        for txid, of_wave in newest_first
        for each in of_wave
    )
    return list(islice(messages, _MOST))
