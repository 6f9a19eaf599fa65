"""A spout over files, run as the engine runs it: pickled for its emitters, batch after batch."""

import os
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import cloudpickle

from anchorbolt.serialization import pack, unpack
from anchorbolt.streams import TopologyContext
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import rows_of
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.transactional import BatchOutputCollector, FilesTransactionalSpout, TransactionAttempt


def write(directory: Path, name: str, content: str | bytes, mtime: int) -> Path:
    """Write a complete file with a modification time of whole seconds."""
    path = directory / name
    hidden = directory / f".{name}.new"
    hidden.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(hidden, (mtime, mtime))
    hidden.rename(path)
    return path


def flat(lists: Iterable[list[Any]]) -> list[Any]:
    """Return the lines of all tasks."""
    return list(chain.from_iterable(lists))


class Running:
    """The coordinator and the emitters of a spout; `metadata` is that of the last batch that committed."""

    def __init__(self, spout: FilesTransactionalSpout, tasks: int = 1, conf: Mapping[str, Any] | None = None) -> None:
        numbers = tuple(range(10, 10 + tasks))
        contexts = [
            TopologyContext("words", "lines", task, index, {"lines": numbers}) for index, task in enumerate(numbers)
        ]
        self.coordinator = spout.coordinator(conf or {}, contexts[0])
        pickled = cloudpickle.dumps(spout)
        self.emitters = [cloudpickle.loads(pickled).emitter(conf or {}, context) for context in contexts]
        self.metadata: Any = None
        self.txid = 0
        self._attempt_id = 0

    def is_ready(self) -> bool:
        self.coordinator.after(self.metadata)
        return self.coordinator.is_ready()

    def begin(self) -> Any:
        """Return the metadata of the next batch, as it is stored."""
        return unpack(pack(self.coordinator.initialize_transaction(self.txid + 1, self.metadata)))

    def new_batch(self) -> list[list[Any]]:
        """Emit and commit a batch; return the lines of each task."""
        metadata = self.begin()
        emitted = self.emit(metadata)
        self.metadata, self.txid = metadata, self.txid + 1
        return emitted

    def emit(self, metadata: Any) -> list[list[Any]]:
        self._attempt_id += 1
        attempt = TransactionAttempt(self.txid + 1, self._attempt_id)
        return [self._emitted(emitter, attempt, metadata) for emitter in self.emitters]

    def lines_until_empty(self) -> list[list[Any]]:
        """Emit and commit batches while one is ready; return the lines of each batch."""
        batches = []
        while self.is_ready():
            batches.append(flat(self.new_batch()))
        return batches

    def _emitted(self, emitter: Any, attempt: TransactionAttempt, metadata: Any) -> list[Any]:
        rows: list[tuple[Any, ...]] = []

        def flush(stream: str, sent: Buffer) -> int:
            rows.extend(rows_of(sent.size, sent.columns))
            return 512

        collector = BatchOutputCollector("lines", {"default": StreamDeclaration(("tx", "line"))}, flush)
        collector.attempt = attempt
        emitter.emit_batch(attempt, metadata, collector)
        collector.flush()
        assert all(row[0] is attempt for row in rows)
        return [row[1] for row in rows]
