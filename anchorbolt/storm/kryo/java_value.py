"""What every value of Storm's has: a typed form for JSON, and a short text for people."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

_LONGEST_TEXT = 200


class JavaValue(ABC):
    """A value of Java's, as it was kept."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the typed form, of plain dicts, lists, strings, numbers and booleans only; docs/storm_bytes.md."""

    def describe(self, limit: int = _LONGEST_TEXT) -> str:
        """Return a text for people, at most `limit` characters of it. It may not tell types apart."""
        text = ""
        for piece in self.pieces():
            text += piece[: limit + 1]
            if len(text) > limit:
                return text[:limit] + "…"
        return text

    def __str__(self) -> str:
        return self.describe()

    @abstractmethod
    def pieces(self) -> Iterator[str]:
        """Yield the whole text in pieces, so that `describe` need not go through all of a large collection."""
