"""A directory of dead letters: `letters-<txid>.jsonl`, and folders for waiting and finished replays."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from anchorbolt.errors import ConfigError, SinkUnavailable
from anchorbolt.files import Folder, join

_LETTERS, _ENDING = "letters-", ".jsonl"
_WAITING, _DONE = "replay", "replayed"


class LetterFolder:
    """A `LetterStore` with file names as names."""

    def __init__(self, folder: Folder) -> None:
        self.location = folder.location
        self._folder = folder

    def append(self, txid: int, lines: Sequence[str]) -> None:
        """Write the wave's file. A file of the same txid from an earlier history, with other letters, is kept."""
        data = "".join(f"{line}\n" for line in lines).encode()
        with self._reached():
            for number in count(1):
                name = f"{_LETTERS}{txid:012d}{'' if number == 1 else f'_{number}'}{_ENDING}"
                found = self._folder.read(name)
                if found is None:
                    self._folder.replace(name, data)
                if found in (None, data):
                    return

    def names(self) -> list[str]:
        return self._in("")

    def read(self, name: str) -> str | None:
        with self._reached():
            data = self._folder.read(name)
        # Bytes that are not UTF-8 are not JSON either.
        return None if data is None else data.decode(errors="replace")

    def replay(self, names: Sequence[str]) -> None:
        waiting = set(self.waiting())
        for name in names:
            if name in waiting:
                raise ConfigError(
                    f"{join(self.location, _WAITING)} has a file {name} already. Let it be replayed first."
                )
        with self._reached():
            for name in names:
                self._folder.move_in(join(self.location, name), f"{_WAITING}/{name}")

    def waiting(self) -> list[str]:
        return self._in(_WAITING)

    def read_waiting(self, name: str) -> str | None:
        return self.read(f"{_WAITING}/{name}")

    def finish(self, name: str) -> None:
        with self._reached():
            if self._folder.exists(f"{_WAITING}/{name}"):
                self._folder.move_in(join(self.location, f"{_WAITING}/{name}"), f"{_DONE}/{name}")

    def _in(self, folder: str) -> list[str]:
        with self._reached():
            names = sorted(self._folder.names(folder))
        return [name for name in names if name.startswith(_LETTERS) and name.endswith(_ENDING)]

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkUnavailable(
                f"the dead letters in {self.location} cannot be read or written: {error}. Make room there, or make it "
                "readable and writable."
            ) from error
