"""Pieces of messages that many errors share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def shortened(value: object, limit: int = 80) -> str:
    """Return a value's `repr` for a message, at most `limit` characters of it; never raises."""
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ may raise anything
        return "(its repr raises)"
    return text if len(text) <= limit else text[:limit] + "…"


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a sentence, after a blank, that offers the nearest of the known names; empty where none is near.

    `cutoff`, between 0 and 1, is how similar it must be, as for `difflib.get_close_matches`.
    """
    matches = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {matches[0]!r}?" if matches else ""
