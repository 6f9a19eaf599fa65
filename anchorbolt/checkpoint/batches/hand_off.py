"""Hand-offs: what the tasks of late bolts keep from the processing phase of a batch for its commit phase.

A task writes one file below the checkpoint location, named by its attempt: its pickled bolt, or the blobs that it
received. The file's digest travels in the task's report, by way of the driver, so nothing is unpickled that another
process has put there. A hand-off is of no use to another driver, so it need not survive a loss of power.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from typing import Any, BinaryIO

import cloudpickle

from anchorbolt.checkpoint.ports import HandOff
from anchorbolt.errors import StateUnavailable, WaveFailed
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.state_backends.state import Fence
from anchorbolt.util.locations import Folder, join

_HAND_OFFS = "anchorbolt/hand-offs"  # below the checkpoint location
_DIGEST_BYTES = 16


def folder_of(fence: Fence) -> str:
    """Return the folder of one try's hand-offs, below the checkpoint location."""
    return f"{_HAND_OFFS}/{fence.generation}-{fence.seq}"


class Unpickler(pickle.Unpickler):
    """Takes classes from loaded modules without importing these again, and objects of the engine from its arguments.

    If a module submits a topology to `LocalCluster` while it is being imported, another thread unpickles its bolts. An
    import on that thread would wait for the end of the first import, and the module waits for the run.
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


class HandOffWriter:
    """Writes the file of one task."""

    def __init__(self, folder: Folder, fence: Fence, name: str) -> None:
        """Create nothing yet; `folder` is the checkpoint location, `name` names the task and its attempt."""
        self._folder = folder
        self._name = f"{folder_of(fence)}/{name}"
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._file: BinaryIO | None = None

    def write_instance(self, data: bytes) -> HandOff:
        self._write(data)
        return self._close(holds_instance=True)

    def write_blob(self, payload: bytes) -> None:
        self._write(len(payload).to_bytes(4, "big") + payload)

    def close_blobs(self) -> HandOff | None:
        """Return the hand-off; None if the task received nothing."""
        return None if self._file is None else self._close(holds_instance=False)

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
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error
        self._file = None
        reach(FaultPoint.HAND_OFF_WRITTEN)
        return HandOff(self._name, holds_instance, self._digest.digest())

    def _unwritable(self, error: OSError) -> StateUnavailable:
        return StateUnavailable(
            f"{join(self._folder.location, self._name)} cannot be written: {error}. Make room, or make it writable "
            "on every machine that runs tasks."
        )


def read_instance(folder: Folder, hand_off: HandOff, txid: int, *own: object) -> Any:
    """Unpickle a bolt after a check of the digest. Raises `WaveFailed` if the file is gone or another one."""
    with _opened(folder, hand_off, txid) as file:
        data = file.read()
    if hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest() != hand_off.digest:
        raise _lost(folder, hand_off, txid, "it is not what the task wrote")
    return Unpickler(data, *own).load()


def read_blobs(folder: Folder, hand_off: HandOff, txid: int) -> Iterator[bytes]:
    """Yield the blobs. Raises `WaveFailed` if the file is gone, or in the end if it is another one."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    with _opened(folder, hand_off, txid) as file:
        while size := file.read(4):
            payload = file.read(int.from_bytes(size, "big"))
            digest.update(size + payload)
            yield payload
    if digest.digest() != hand_off.digest:
        raise _lost(folder, hand_off, txid, "it is not what the task wrote")


def remove_hand_offs(folder: Folder, fence: Fence) -> None:
    """Remove the hand-offs of one try. What cannot be removed now, a later driver removes."""
    with suppress(OSError):
        folder.remove_tree(folder_of(fence))


def remove_older_hand_offs(folder: Folder, generation: int) -> None:
    """Remove those of drivers before this generation, also what their tasks wrote after their end."""
    with suppress(OSError):
        for name in list(folder.names(_HAND_OFFS)):
            owner = name.partition("-")[0]
            if owner.isdigit() and int(owner) < generation:
                folder.remove_tree(f"{_HAND_OFFS}/{name}")


def _opened(folder: Folder, hand_off: HandOff, txid: int) -> BinaryIO:
    try:
        return folder.open(hand_off.name)
    except OSError as error:
        raise _lost(folder, hand_off, txid, str(error)) from error


def _lost(folder: Folder, hand_off: HandOff, txid: int, reason: str) -> WaveFailed:
    return WaveFailed(
        f"what a task kept from the processing phase of batch {txid} cannot be read from "
        f"{join(folder.location, hand_off.name)}: {reason}. The batch is tried again. If that goes on, put the "
        "checkpoint location where every machine that runs tasks sees it.",
        txid=txid,
    )
