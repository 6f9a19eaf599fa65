"""Where long work reports how far it is. Shown by the command line; nobody need listen."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of steps, each over entries of a namespace."""

    def begin(self, what: str, total: int | None) -> None:
        """A step begins, over `total` entries if that is known; the one before it has ended."""

    def advance(self, entries: int) -> None:
        """So many more entries of the step are done."""


class Silent:
    """Reports to nobody."""

    def begin(self, what: str, total: int | None) -> None:
        """See `Progress.begin`."""

    def advance(self, entries: int) -> None:
        """See `Progress.advance`."""
