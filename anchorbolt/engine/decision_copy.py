"""The decision record's copy, in a file of each driver's own at the streaming checkpoint location."""

from __future__ import annotations

from anchorbolt.files import Folder

__all__ = ["FolderCopy"]

_PLACE = "anchorbolt"
_PREFIX = "decision-"


class FolderCopy:
    """See `anchorbolt.checkpoint.spout.DecisionCopy`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read(self) -> bytes | None:
        """Return the copy of the highest generation."""
        generations = self._generations()
        return self._folder.read(_name(generations[-1])) if generations else None

    def write(self, generation: int, data: bytes) -> None:
        """Replace the copy of a generation."""
        self._folder.replace(_name(generation), data)

    def forget_older(self, generation: int) -> None:
        """Remove the copies of lower generations, once `generation` has one."""
        for older in self._generations():
            if older < generation:
                self._folder.remove_tree(_name(older))

    def _generations(self) -> list[int]:
        suffixes = (
            name.removeprefix(_PREFIX) for name in self._folder.names(_PLACE) if name.startswith(_PREFIX)
        )
        return sorted(int(suffix) for suffix in suffixes if suffix.isdigit())


def _name(generation: int) -> str:
    return f"{_PLACE}/{_PREFIX}{generation}"
