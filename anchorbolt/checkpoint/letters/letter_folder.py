"""A directory of dead letters: `letters-<txid>.jsonl`, those that wait to be replayed, and those that were."""

from collections.abc import Iterator, Sequence

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.errors import ConfigError, SerializationError
from anchorbolt.util.locations import join, open_folder

_LETTERS, _ENDING = "letters-", ".jsonl"
_WAITING, _DONE = "replay", "replayed"

Letter = tuple[int, DeadLetter]
"""A dead letter, and the txid of the wave that left it out."""


class LetterFolder:
    """The dead letters of one topology. Nothing is deleted: what was replayed is moved."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._folder = open_folder(location)

    def files(self) -> list[str]:
        """Return the names of the files with letters that are not to be replayed."""
        return self._in("")

    def letters(self, name: str) -> list[Letter]:
        """Read a file. Raises `SerializationError` if it does not hold dead letters."""
        data = self._folder.read(name)
        if data is None:
            raise ConfigError(f"{join(self.location, name)} is gone. List the dead letters again.")
        try:
            return [DeadLetter.from_json(line) for line in data.decode().split("\n") if line]
        except (KeyError, TypeError, ValueError) as error:
            raise SerializationError(
                f"{join(self.location, name)} holds no dead letters: {type(error).__name__}: {error}. Move it away."
            ) from error

    def replay(self, names: Sequence[str]) -> int:
        """Have the topology process the letters of these files again; return how many.

        Raises `ConfigError` if a file of this name waits already, before any is moved.
        """
        count = sum(len(self.letters(name)) for name in names)
        for name in names:
            if self._folder.exists(f"{_WAITING}/{name}"):
                raise ConfigError(
                    f"{join(self.location, _WAITING)} has a file {name} already. Let it be replayed first."
                )
        for name in names:
            self._folder.move_in(join(self.location, name), f"{_WAITING}/{name}")
        return count

    def waiting(self) -> Iterator[str]:
        """Yield the names of the files that wait to be replayed, oldest first."""
        yield from self._in(_WAITING)

    def waiting_letters(self, name: str) -> list[Letter]:
        """Read a file that waits to be replayed."""
        return self.letters(f"{_WAITING}/{name}")

    def finish(self, name: str) -> None:
        """Move a file away that was replayed. May be repeated."""
        if self._folder.exists(f"{_WAITING}/{name}"):
            self._folder.move_in(join(self.location, f"{_WAITING}/{name}"), f"{_DONE}/{name}")

    def _in(self, folder: str) -> list[str]:
        return [name for name in self._folder.names(folder) if name.startswith(_LETTERS) and name.endswith(_ENDING)]
