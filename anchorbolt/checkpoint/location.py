"""The driver's files at the streaming checkpoint location: the query's id, and the copies of the decision record."""

import json

from anchorbolt.errors import WaveFailed
from anchorbolt.util.locations import Folder

_PLACE = "anchorbolt"
_PREFIX = "decision-"


class FolderCopy:
    """The copies of the decision record at the checkpoint location: a second failure domain.

    Each generation has a copy of its own, because nothing fences off an older driver there.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read(self) -> bytes | None:
        """Return the latest copy of the highest generation; None if there is no copy."""
        gone: set[int] = set()
        # A newer driver may remove a copy between the two calls. It has written its own by then, so list them again.
        while generations := [each for each in self._generations() if each not in gone]:
            data = self._folder.read(_name(generations[-1]))
            if data is not None:
                return data
            gone.add(generations[-1])
        return None

    def write(self, generation: int, data: bytes) -> None:
        self._folder.replace(_name(generation), data)

    def forget_older(self, generation: int) -> None:
        for older in self._generations():
            if older < generation:
                self._folder.remove_tree(_name(older))

    def _generations(self) -> list[int]:
        suffixes = (name.removeprefix(_PREFIX) for name in self._folder.names(_PLACE) if name.startswith(_PREFIX))
        return sorted(int(suffix) for suffix in suffixes if suffix.isdigit())


def query_id_at(folder: Folder) -> str:
    """Return the id of the query that a checkpoint location belongs to; empty for a new location.

    Raises `WaveFailed` if the location's metadata cannot be read.
    """
    data = folder.read("metadata")
    if not data:
        return ""
    try:
        return str(json.loads(data)["id"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WaveFailed(
            f"{folder.location}/metadata is not what Spark wrote: {error}. Restore the checkpoint location.", txid=-1
        ) from error


def _name(generation: int) -> str:
    return f"{_PLACE}/{_PREFIX}{generation}"
