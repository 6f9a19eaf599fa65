"""How a checkpoint location knows the sources of stream spouts: by their names, or by their order only.

Spark 4.2 and later can name a source. A location keeps the format that it began with: offsets in version 2 have the
name of each source, those in version 1 only their order. Beside Spark's files, `anchorbolt/spouts.json` keeps which
spouts the location has had, so that a change can be named, and a removed spout is not taken for a new one.
"""

import json
import logging
from collections.abc import Sequence

from anchorbolt.errors import QueryChanged
from anchorbolt.util.locations import Folder

_log = logging.getLogger("anchorbolt.engine")

_FILE = "anchorbolt/spouts.json"
_OFFSETS = "offsets"
_NAMED = b"v2"
_POSITIONAL = b"v1"


def source_name(spout: str, number: int = 1) -> str:
    """Return the name of a spout's source, or of its second one, and so on.

    Spark allows letters, digits and `_` in it. Different spouts have different names.
    """
    letters = (each if each.isalnum() else "__" if each == "_" else f"_{ord(each):02x}" for each in spout)
    return "".join(letters) + ("" if number == 1 else f"_n{number}")


class KnownSources:
    """The stream spouts that a checkpoint location has had, beside those of the topology that starts."""

    def __init__(self, folder: Folder, spouts: Sequence[str], *, can_name: bool) -> None:
        """Read the location; `can_name` says whether this Spark can name sources."""
        self._folder = folder
        self._spouts = list(spouts)
        self._can_name = can_name
        self._offsets = self._latest_offsets()
        version = self._offsets.partition(b"\n")[0]
        self.are_named = can_name if version not in (_NAMED, _POSITIONAL) else version == _NAMED
        self._before, self._removed = self._read()

    def check(self) -> None:
        """Raise `QueryChanged` if the location's offsets cannot be used by the topology."""
        place = f"the checkpoint location {self._folder.location}"
        if self.are_named and not self._can_name:
            raise QueryChanged(
                f"{place} names the sources of its spouts, which this version of Spark cannot read. Start with PySpark "
                "4.2 or later, as before."
            )
        if not self._offsets:
            return
        if self.are_named:
            again = [spout for spout in self._spouts if spout in self._removed and not self._has_offsets(spout)]
            if again:
                raise QueryChanged(
                    f"{place} had the spout {_listed(again)} before, without which the topology has run since: Spark "
                    "would read its source from the beginning once more. Give it another id, if that is what you want. "
                    + _OR_NEW
                )
        elif self._before is not None and self._before != self._spouts:
            raise QueryChanged(
                f"{place} knows its sources only by their order, because an older version of Anchorbolt or Spark made "
                f"it. {self._changes()} Set that back. {_OR_NEW}"
            )

    def record(self) -> None:
        """Write which spouts the location has now. To be called before Spark reads the sources."""
        before = self._before or []
        gone = [spout for spout in before if spout not in self._spouts] if self.are_named and self._offsets else []
        removed = [spout for spout in self._removed if spout not in self._spouts]
        if gone:
            _log.warning("the spout %s was removed: its position at the checkpoint location is given up", _listed(gone))
        content = {"spouts": self._spouts, "removed": [*removed, *gone]}
        if (self._before, self._removed) != (content["spouts"], content["removed"]):
            self._folder.replace(_FILE, json.dumps(content).encode())

    def _changes(self) -> str:
        before, now = self._before or [], self._spouts
        added = [spout for spout in now if spout not in before]
        removed = [spout for spout in before if spout not in now]
        told = [f"Added: {_listed(added)}."] if added else []
        told += [f"Removed: {_listed(removed)}."] if removed else []
        return " ".join(told) or f"Their order was {_listed(before)}, and is {_listed(now)} now."

    def _has_offsets(self, spout: str) -> bool:
        return any(line.startswith(f"{source_name(spout)}:".encode()) for line in self._offsets.splitlines())

    def _latest_offsets(self) -> bytes:
        batches = [int(name) for name in self._folder.names(_OFFSETS) if name.isdigit()]
        return (self._folder.read(f"{_OFFSETS}/{max(batches)}") or b"") if batches else b""

    def _read(self) -> tuple[list[str] | None, list[str]]:
        """Return the spouts of the last start, None if nobody has written them, and those that were removed before."""
        data = self._folder.read(_FILE)
        if data is None:
            return None, []
        try:
            content = json.loads(data)
            return list(content["spouts"]), list(content["removed"])
        except (ValueError, KeyError, TypeError):
            return None, []


_OR_NEW = "Or continue with a new checkpoint location, as docs/failures/checkpoint-location.md says."


def _listed(spouts: Sequence[str]) -> str:
    return ", ".join(map(repr, spouts))
