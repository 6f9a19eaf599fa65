"""How a checkpoint location identifies the sources of stream spouts: by their names, or only by their order.

Spark 4.2 and later can name a source. A location keeps the format that it began with: offsets in version 2 have the
name of each source, offsets in version 1 only the order. Beside Spark's files, `anchorbolt/spouts.json` lists the
spouts that the location has had. So an error can name the change, and a removed spout is not mistaken for a new one.

A removed spout may come back as long as its position exists and no wave has begun without it. The latest offsets alone
cannot show that: after a crash, Spark runs the interrupted batch again without the removed spout, and its offsets still
name the spout. So a run calls `give_up` before its first wave changes any state.
"""

import json
import logging
import re
from collections.abc import Sequence

from anchorbolt.engine.spark.sources.offset_log import offsets_of
from anchorbolt.errors import QueryChanged
from anchorbolt.files import Folder

_log = logging.getLogger("anchorbolt.engine")

_FILE = "anchorbolt/spouts.json"
_OFFSETS = "offsets"
_NAMED = b"v2"
_POSITIONAL = b"v1"


def source_name(spout: str, number: int = 1) -> str:
    """Return the name of a spout's source with this number.

    Spark allows letters, digits and `_` in a name. Different spouts have different names.
    """
    letters = (each if each.isalnum() else "__" if each == "_" else f"_{ord(each):02x}" for each in spout)
    return "".join(letters) + ("" if number == 1 else f"_n{number}")


class KnownSources:
    """The stream spouts that a checkpoint location has had, compared with those of the starting topology."""

    def __init__(self, folder: Folder, spouts: Sequence[str], *, can_name: bool) -> None:
        """Read the location; `can_name` says whether this Spark can name sources."""
        self._folder = folder
        self._spouts = list(spouts)
        self._can_name = can_name
        self._before: list[str] | None = None
        self._removed: list[str] = []
        self._kept: list[str] = []  # removed spouts; no wave has begun without them
        self._look()
        version = self._offsets.partition(b"\n")[0]
        self.are_named = can_name if version not in (_NAMED, _POSITIONAL) else version == _NAMED

    def check(self) -> None:
        """Raise `QueryChanged` if the topology cannot use the location's offsets."""
        place = f"the checkpoint location {self._folder.location}"
        if self.are_named and not self._can_name:
            raise QueryChanged(
                f"{place} names the sources of its spouts, which this version of Spark cannot read. Start with PySpark "
                "4.2 or later, as before."
            )
        if not self._offsets:
            return
        if self.are_named:
            again = [spout for spout in self._spouts if spout in self._removed and not self._is_kept(spout)]
            if again:
                raise QueryChanged(
                    f"{place} had the spout {_listed(again)} before, and the topology has gone on without it since: "
                    "its rows would be lost, or count twice. Give it another id, and make sure which rows its source "
                    f"delivers. {_OR_NEW}"
                )
        elif self._before is not None and self._before != self._spouts:
            raise QueryChanged(
                f"{place} knows its sources only by their order, because an older version of Anchorbolt or Spark made "
                f"it. {self._changes()} Set that back. {_OR_NEW}"
            )

    def record(self) -> None:
        """Write the current spouts of the location. Call this after the claim, and before Spark reads the sources.

        Raises `QueryChanged` like `check`, because an older driver may have begun waves until it was fenced off.
        """
        self._look()
        self.check()
        before = (self._before or []) if self.are_named else []
        # A spout without offsets has never been read, so it counts as new if it comes back.
        gone = [spout for spout in before if spout not in self._spouts and self._has_offsets(spout)]
        removed = [spout for spout in self._removed if spout not in self._spouts]
        kept = [*(spout for spout in removed if self._is_kept(spout)), *gone]
        if kept:
            _log.warning(
                "the spout %s was removed: its position at the checkpoint location is given up when the next wave "
                "begins",
                _listed(kept),
            )
        self._write([*removed, *gone], kept)

    def give_up(self) -> None:
        """Note that waves begin without the removed spouts. Call this before a wave changes any state."""
        self._write(self._removed, [])

    @property
    def keeps_removed(self) -> bool:
        """Whether a removed spout could still come back: then a wave may begin only after `give_up`."""
        return bool(self._kept)

    def _write(self, removed: list[str], kept: list[str]) -> None:
        if (self._before, self._removed, self._kept) != (self._spouts, removed, kept):
            content = {"spouts": self._spouts, "removed": removed, "kept": kept}
            self._folder.replace(_FILE, json.dumps(content).encode())
            self._before, self._removed, self._kept = self._spouts, removed, kept

    def _changes(self) -> str:
        before, now = self._before or [], self._spouts
        added = [spout for spout in now if spout not in before]
        removed = [spout for spout in before if spout not in now]
        told = [f"Added: {_listed(added)}."] if added else []
        told += [f"Removed: {_listed(removed)}."] if removed else []
        return " ".join(told) or f"Their order was {_listed(before)}, and is {_listed(now)} now."

    def _is_kept(self, spout: str) -> bool:
        """Return whether a removed spout may come back."""
        return spout in self._kept and self._has_offsets(spout)

    def _has_offsets(self, spout: str) -> bool:
        sources = re.compile(rf"{source_name(spout)}(_n\d+)?")
        return any(sources.fullmatch(name) for name in offsets_of(self._offsets))

    def _look(self) -> None:
        self._offsets = self._latest_offsets()
        self._before, self._removed, self._kept = self._read()

    def _latest_offsets(self) -> bytes:
        batches = [int(name) for name in self._folder.names(_OFFSETS) if name.isdigit()]
        return (self._folder.read(f"{_OFFSETS}/{max(batches)}") or b"") if batches else b""

    def _read(self) -> tuple[list[str] | None, list[str], list[str]]:
        """Return (spouts of the last start or None, removed spouts, kept spouts)."""
        data = self._folder.read(_FILE)
        if data is None:
            return None, [], []
        try:
            content = json.loads(data)
            return list(content["spouts"]), list(content["removed"]), list(content.get("kept", []))
        except (ValueError, KeyError, TypeError):
            return None, [], []


_OR_NEW = "Or continue with a new checkpoint location, as docs/failures/checkpoint-location.md says."


def _listed(spouts: Sequence[str]) -> str:
    return ", ".join(map(repr, spouts))
