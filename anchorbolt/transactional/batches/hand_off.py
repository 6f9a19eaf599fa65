"""Hand-offs: files in which tasks of late bolts keep data from a batch's processing phase for its commit phase.

A task writes one file below the checkpoint location, named by its attempt: its pickled bolt, or the blobs that it
received. The file ends with a digest that needs a key, which only this run's processes have. So a task never unpickles
another process's file, and the driver only has to name the winning attempt. Another driver cannot use a hand-off, so it
need not survive a power loss.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from hmac import compare_digest
from operator import attrgetter
from typing import Any, BinaryIO

import cloudpickle

from anchorbolt.checkpoint.ports import BatchTry, HandOff, TaskKey
from anchorbolt.errors import StateUnavailable, WaveFailed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.files import Folder, join
from anchorbolt.state_backends.state import Fence

_HAND_OFFS = "anchorbolt/hand-offs"  # below the checkpoint location
_DIGEST_BYTES = 16
_END = b"\xff\xff\xff\xff"  # in place of a blob's length; no blob is that long
_CHANGED = "it is not what the task wrote"


def folder_of(fence: Fence) -> str:
    """Return the folder of one try's hand-offs, below the checkpoint location."""
    return f"{_HAND_OFFS}/{fence.generation}-{fence.seq}"


class Unpickler(pickle.Unpickler):
    """Takes classes from loaded modules without an import, and the engine's objects from its arguments.

    If a module submits a topology to `LocalCluster` while it is being imported, another thread unpickles its bolts. An
    import on that thread would wait for the first import to end, while the module waits for the run: a deadlock.
    """

    def __init__(self, data: bytes, *own: object) -> None:
        super().__init__(io.BytesIO(data))
        self._own = own

    def find_class(self, module: str, name: str) -> Any:
        loaded = sys.modules.get(module)
        return super().find_class(module, name) if loaded is None else attrgetter(name)(loaded)

    def persistent_load(self, position: int) -> object:
        return self._own[position]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: BinaryIO, own: tuple[object, ...]) -> None:
        super().__init__(file)
        self._own = {id(each): position for position, each in enumerate(own)}

    def persistent_id(self, value: object) -> int | None:
        return self._own.get(id(value))


def pickled(bolt: object, *own: object) -> bytes:
    """Pickle a bolt, but not the engine's objects `own`. Raises any exception if it cannot be pickled."""
    file = io.BytesIO()
    _Pickler(file, own).dump(bolt)
    return file.getvalue()


class HandOffs:
    """The hand-offs of one run, in a process."""

    def __init__(self, folder: Folder, key: bytes) -> None:
        """`folder` is the checkpoint location; the run's `key` is at most 64 bytes."""
        self.folder = folder
        self._key = key

    def writer(self, fence: Fence, task: TaskKey, attempt: str) -> HandOffWriter:
        """Return a writer for the file of a task's attempt. It creates no file yet."""
        return HandOffWriter(self.folder, _name(fence, task, attempt), attempt, self._key)

    def read_instance(self, batch: BatchTry, task: TaskKey, hand_off: HandOff, *own: object) -> Any:
        """Check the digest, then unpickle a bolt. Raises `WaveFailed` if the file is gone or was changed."""
        name = _name(batch.fence, task, hand_off.attempt)
        with self._opened(name, batch.attempt.txid) as file:
            data = file.read()
        data, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        wanted = _digest_of(name, self._key)
        wanted.update(data)
        if not compare_digest(digest, wanted.digest()):
            raise self._lost(name, batch.attempt.txid, _CHANGED)
        return Unpickler(data, *own).load()

    def read_blobs(self, batch: BatchTry, task: TaskKey, hand_off: HandOff) -> Iterator[bytes]:
        """Yield the blobs. Raises `WaveFailed` if the file is gone, or after the last blob if it was changed."""
        name = _name(batch.fence, task, hand_off.attempt)
        digest = _digest_of(name, self._key)
        with self._opened(name, batch.attempt.txid) as file:
            while (size := file.read(4)) not in (b"", _END):
                payload = file.read(int.from_bytes(size, "big"))
                digest.update(size + payload)
                yield payload
            digest.update(size)
            if not compare_digest(file.read(), digest.digest()):
                raise self._lost(name, batch.attempt.txid, _CHANGED)

    def _opened(self, name: str, txid: int) -> BinaryIO:
        try:
            return self.folder.open(name)
        except OSError as error:
            raise self._lost(name, txid, str(error)) from error

    def _lost(self, name: str, txid: int, reason: str) -> WaveFailed:
        return WaveFailed(
            f"what a task kept from the processing phase of batch {txid} cannot be read from "
            f"{join(self.folder.location, name)}: {reason}. The batch is tried again. If that goes on, put the "
            "checkpoint location where every machine that runs tasks sees it.",
            txid=txid,
        )


class HandOffWriter:
    """Writes the file of one task."""

    def __init__(self, folder: Folder, name: str, attempt: str, key: bytes) -> None:
        self._folder = folder
        self._name = name
        self._attempt = attempt
        self._digest = _digest_of(name, key)
        self._file: BinaryIO | None = None

    def write_instance(self, data: bytes) -> HandOff:
        self._write(data)
        return self._close(holds_instance=True)

    def write_blob(self, payload: bytes) -> None:
        self._write(len(payload).to_bytes(4, "big") + payload)

    def close_blobs(self) -> HandOff | None:
        """Return the hand-off; None if the task received nothing."""
        if self._file is None:
            return None
        self._write(_END)
        return self._close(holds_instance=False)

    def abandon(self) -> None:
        """Close an unfinished file. Nothing reads it, and the driver removes it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, data: bytes) -> None:
        try:
            if self._file is None:
                self._file = self._folder.create_passing(self._name)
            self._file.write(data)
        except OSError as error:
            raise self._unwritable(error) from error
        self._digest.update(data)

    def _close(self, *, holds_instance: bool) -> HandOff:
        assert self._file is not None
        try:
            self._file.write(self._digest.digest())
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error
        self._file = None
        reach(FaultPoint.HAND_OFF_WRITTEN)
        return HandOff(self._attempt, holds_instance)

    def _unwritable(self, error: OSError) -> StateUnavailable:
        return StateUnavailable(
            f"{join(self._folder.location, self._name)} cannot be written: {error}. Make room, or make it writable "
            "on every machine that runs tasks."
        )


def remove_hand_offs(folder: Folder, fence: Fence) -> None:
    """Remove the hand-offs of one try. If that fails, a later driver removes them."""
    with suppress(OSError):
        folder.remove_tree(folder_of(fence))


def remove_older_hand_offs(folder: Folder, generation: int) -> None:
    """Remove the hand-offs of drivers before this generation, also files that their tasks wrote late."""
    with suppress(OSError):
        for name in list(folder.names(_HAND_OFFS)):
            owner = name.partition("-")[0]
            if owner.isdigit() and int(owner) < generation:
                folder.remove_tree(f"{_HAND_OFFS}/{name}")


def _name(fence: Fence, task: TaskKey, attempt: str) -> str:
    return f"{folder_of(fence)}/{task[0]}-{task[1]}-{attempt}"


def _digest_of(name: str, key: bytes) -> hashlib.blake2b:
    """Begin a digest with the file's name, so that no file can replace another one."""
    return hashlib.blake2b(name.encode() + b"\0", digest_size=_DIGEST_BYTES, key=key)
