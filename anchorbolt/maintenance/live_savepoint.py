"""The files by which a command and the driver of a run take a savepoint together, while the run goes on.

The command reads the state from the store while waves change it, so what it reads is of no single wave. Meanwhile each
task also writes what it stages to files, and the driver notes the winners. An entry that was changed meanwhile is taken
from these files, every other one from the store: together they are the state after the last noted wave.

| file below `savepoint/` | by | content |
|---|---|---|
| `asked` | the command | `Asked`; written again every few seconds, or the driver forgets it |
| `answered` | the driver | `Answered` |
| `<id>/waves/<number>` | the driver | successive waves: each with its txid and its winners |
| `<id>/changes/<namespace>/<attempt>-<slice>` | the tasks | a slice of updates, see `packed_updates` |

    command   asks ───────────────▶ reads the store ──▶ asks to choose ─────────────▶ merges ──▶ withdraws
    driver      SEEN ─▶ KEEPS (between two waves)                  CHOSEN (between two waves)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from zlib import crc32

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.files import Folder
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import CHECKSUM_FACTOR, Seal, StagedSlice, unpacked_updates

FOLDER = "savepoint"
"""Below the checkpoint location."""

BEAT_S = 5.0
"""The command writes `asked` again after this time."""

PATIENCE_S = 60.0
"""The driver forgets a command that has not written `asked` again for this time."""

_ASKED = f"{FOLDER}/asked"
_ANSWERED = f"{FOLDER}/answered"


class Progressed(Enum):
    """How far the driver is."""

    SEEN = "seen"
    KEEPS = "keeps"  # the tasks write what they stage, from the next wave on
    CHOSEN = "chosen"  # the savepoint is of the last wave; the tasks write no more
    ENDED = "ended"  # the run


@dataclass(frozen=True)
class Asked:
    """What the command wants."""

    id: str  # of this call of the command: 32 hexadecimal digits
    beat: int = 0
    is_read: bool = False  # whether the command has read the store, so that the driver is to choose the wave


@dataclass(frozen=True)
class Answered:
    """The driver's answer."""

    id: str
    progressed: Progressed
    generation: int  # of the driver
    beat: int = 0  # that of `Asked`: the driver is alive
    # Once CHOSEN:
    record: bytes = b""  # the decision record
    entries: Mapping[bytes, bytes] = field(default_factory=dict)  # of the decision record's namespace
    files: int = 0  # below `waves`


@dataclass(frozen=True)
class NotedWave:
    """A committed wave."""

    txid: int
    winners: Mapping[str, Winner]  # by namespace


class SavepointFiles:
    """Reads and writes these files at a checkpoint location. Raises `OSError` if it cannot be reached."""

    def __init__(self, checkpoint: Folder) -> None:
        self._folder = checkpoint
        self.location = checkpoint.location

    def ask(self, asked: Asked) -> None:
        self._folder.replace(_ASKED, pack([asked.id, asked.beat, asked.is_read]))

    def asked(self) -> Asked | None:
        content = self._read(_ASKED)
        return None if content is None else Asked(*content)

    def withdraw(self) -> None:
        self._folder.remove_tree(_ASKED)

    def answer(self, answered: Answered) -> None:
        entries = [part for entry in answered.entries.items() for part in entry]
        numbers = [answered.generation, answered.beat, answered.files]
        content = [answered.id, answered.progressed.value, numbers, answered.record, entries]
        self._folder.replace(_ANSWERED, pack(content))

    def answered(self) -> Answered | None:
        content = self._read(_ANSWERED)
        if content is None:
            return None
        to, progressed, (generation, beat, files), record, entries = content
        by_key = dict(zip(entries[::2], entries[1::2], strict=True))
        return Answered(to, Progressed(progressed), generation, beat, record, by_key, files)

    def note(self, of: str, number: int, waves: Sequence[NotedWave]) -> None:
        content = [
            [wave.txid, [[name, each.attempt, each.base, *each.seal] for name, each in wave.winners.items()]]
            for wave in waves
        ]
        self._folder.replace(f"{FOLDER}/{of}/waves/{number}", pack(content))

    def noted(self, of: str, number: int) -> list[NotedWave]:
        name = f"{FOLDER}/{of}/waves/{number}"
        return [
            NotedWave(
                txid, {namespace: Winner(attempt, base, Seal(*seal)) for namespace, attempt, base, *seal in winners}
            )
            for txid, winners in self._read(name) or ()
        ]

    def keep(self, of: str, namespace: str, staged: StagedSlice) -> None:
        """Keep a slice that a task has staged. It need not survive a loss of power."""
        with self._folder.create_passing(_slice(of, namespace, staged.attempt, staged.number)) as file:
            file.write(staged.packed)

    def kept(self, of: str, namespace: str, winner: Winner) -> list[dict[bytes, bytes | None]]:
        """Return the slices of an attempt. Raises `StateCorrupted` if they are not those that it has sealed."""
        slices, checksum = [], 0
        for number in range(winner.seal.slices):
            packed = self._folder.read(_slice(of, namespace, winner.attempt, number)) or b""
            checksum = (checksum * CHECKSUM_FACTOR + crc32(packed)) % 2**32
            slices.append(packed)
        if checksum != winner.seal.checksum:
            raise StateCorrupted(
                f"a task of {namespace} could not write its changes to {self.location}/{FOLDER}, or they are damaged: "
                "there is no savepoint. The log of the run says why. Take it again.",
                namespace=namespace,
            )
        return [unpacked_updates(packed, crc32(packed)) for packed in slices]

    def forget(self) -> None:
        """Remove all these files."""
        self._folder.remove_tree(FOLDER)

    def _read(self, name: str) -> Any:
        data = self._folder.read(name)
        if data is None:
            return None
        try:
            return unpack(data)
        except SerializationError as error:
            raise StateCorrupted(f"{self.location}/{name} is damaged: {error}. Delete it.") from error


def _slice(of: str, namespace: str, attempt: str, number: int) -> str:
    return f"{FOLDER}/{of}/changes/{namespace.replace(':', '@')}/{attempt}-{number}"
