"""Maps over an outside store that count each batch once, with batched reads and writes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from anchorbolt.errors import StateCorrupted, StateError
from anchorbolt.transactional.values import (
    OpaqueValue,
    TransactionalValue,
    refuse_later,
    update_opaque,
    update_transactional,
)
from anchorbolt.util.messages import shortened

Function = Callable[[Any], Any]

_thread = threading.local()


def journal_was_kept() -> bool:
    """Return whether a committer has updated a map on this thread since the last call: its journal is its task's."""
    kept, _thread.has_journal = getattr(_thread, "has_journal", False), False
    return kept


class BackingMap(Protocol):
    """A store of your own: a table, a hash in Redis. Its values are lists as in `TransactionalValue.encode`."""

    def multi_get(self, keys: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the keys, in their order; None for a key without a value."""

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Write a value, an encoded list, for each key. If it fails, any part of them may have been written."""


class _BatchMap(ABC):
    """What both maps have in common."""

    _kind: ClassVar[type[TransactionalValue[Any] | OpaqueValue[Any]]]

    def __init__(self, backing: BackingMap) -> None:
        self._backing = backing

    def multi_get(self, keys: Iterable[Any]) -> list[Any]:
        """Return the values of the keys, in their order; None for a key without a value. One read.

        A value includes the batch that last updated it, even if that batch is being tried again.
        """
        keys = list(keys)
        stored = self._read(dict.fromkeys(keys))
        return [stored[key].value if key in stored else None for key in keys]

    @abstractmethod
    def multi_update(self, txid: int, functions: Mapping[Any, Function]) -> dict[Any, Any]: ...

    def multi_put(self, txid: int, values: Mapping[Any, Any]) -> None:
        """Replace values: `multi_update` with functions that return them."""
        self.multi_update(txid, {key: _constant(value) for key, value in values.items()})

    def _read(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the stored values of the keys that have one, by key."""
        keys = list(keys)
        return self._decoded(keys, self._backing_values(keys))

    def _backing_values(self, keys: list[Any]) -> Sequence[Any]:
        found = self._backing.multi_get(keys) if keys else []
        if len(found) != len(keys):
            raise StateError(
                f"{type(self._backing).__name__}.multi_get returned {len(found)} values for {len(keys)} keys. Return "
                "one for each key, None for a key without a value."
            )
        return found

    def _decoded(self, keys: Iterable[Any], found: Sequence[Any]) -> dict[Any, Any]:
        values = {}
        for key, encoded in zip(keys, found, strict=True):
            if encoded is not None:
                try:
                    values[key] = self._kind.decode(encoded)
                except StateCorrupted as error:
                    raise StateCorrupted(f"key {shortened(key)}: {error}") from None
        return values

    def _write(self, values: Mapping[Any, Any]) -> None:
        if values:
            self._backing.multi_put(list(values), [value.encode() for value in values.values()])


class TransactionalMap(_BatchMap):
    """A map of `TransactionalValue`. For spouts that emit the same batch in each try."""

    _kind = TransactionalValue

    def multi_update(self, txid: int, functions: Mapping[Any, Function]) -> dict[Any, Any]:
        """Update values as a batch does: one read, and one write unless the batch is already in all values.

        Call it in the commit phase, in `finish_batch` of a committer, once for a batch and a key.

        Args:
            txid: The batch's transaction id.
            functions: For each key a function that returns its new value; the argument is the old one, or None.

        Returns:
            The new values by key.

        Raises:
            StateError: A value has a higher txid: it belongs to another history of the topology. Nothing was written.
            StateCorrupted: A value is not a `TransactionalValue`. Nothing was written.
        """
        stored = self._read(functions)
        _refuse_later(stored, txid)
        values = {key: update_transactional(stored.get(key), txid, each) for key, each in functions.items()}
        self._write({key: value for key, value in values.items() if value is not stored.get(key)})
        return {key: value.value for key, value in values.items()}


class OpaqueMap(_BatchMap):
    """A map of `OpaqueValue`. For any spout: of several tries of a batch, the last one counts.

    An opaque spout may deliver a key in one try of a batch, and not in the next one. So the map stores the keys of its
    last batch in a journal, and takes back what an earlier try did to keys that the last one does not have. A key that
    is taken back stays in the store, with the value that it had before, or None. The journal is an entry of the same
    store.
    """

    _kind = OpaqueValue

    def __init__(self, backing: BackingMap, *, journal: Any) -> None:
        """Create a map.

        Args:
            backing: The store.
            journal: A key of the store, for the journal. Each task needs its own, which is the same in each try, such
                as `f"journal-{context.this_component_id}-{context.this_task_index}"`. The same task must get a key in
                each try: take the bolt's stream by fields grouping. Its parallelism can change when a run has ended
                as FINISHED or STOPPED. While a batch may be half committed, a start with another one is refused.
        """
        super().__init__(backing)
        self._journal = journal

    def multi_update(self, txid: int, functions: Mapping[Any, Function]) -> dict[Any, Any]:
        """Update values as a batch does: one read and one write, and a write of the journal before it.

        Call it in the commit phase, in `finish_batch` of a committer, exactly once for each batch on each task: also
        without any function, if the task got no tuple.

        Args:
            txid: The batch's transaction id.
            functions: For each key a function that returns its new value; the argument is the value without this
                batch, or None.

        Returns:
            The new values by key.

        Raises:
            StateError: A value has a higher txid: it belongs to another history of the topology. Nothing was written.
            StateCorrupted: A value is not an `OpaqueValue`. Nothing was written.
        """
        _thread.has_journal = True
        found = self._backing_values([self._journal, *functions])
        journal = self._journal_of(found[0], txid)
        stored = self._decoded(functions, found[1:])
        dropped = [key for key in journal if key not in functions]
        stored |= self._read(dropped)
        _refuse_later(stored, txid)
        values = {key: update_opaque(stored.get(key), txid, each) for key, each in functions.items()}
        undone = {key: stored[key] for key in dropped if key in stored and stored[key].txid == txid}
        if not journal.keys() >= functions.keys():
            keys = list(journal | dict.fromkeys(functions))
            self._backing.multi_put([self._journal], [TransactionalValue(keys, txid).encode()])
        self._write(values | {key: OpaqueValue(old.previous, txid, old.previous) for key, old in undone.items()})
        return {key: value.value for key, value in values.items()}

    def _journal_of(self, encoded: Any, txid: int) -> dict[Any, None]:
        """Return the keys that earlier tries of this batch have updated."""
        if encoded is None:
            return {}
        try:
            journal = TransactionalValue.decode(encoded)
            if not isinstance(journal.value, list):
                raise StateCorrupted(f"the store holds {shortened(encoded)}, which is not a journal. Use another key.")
        except StateCorrupted as error:
            raise StateCorrupted(f"journal {shortened(self._journal)}: {error}") from None
        refuse_later(journal.txid, txid, f"the journal {shortened(self._journal)}")
        return {_hashable(key): None for key in journal.value} if journal.txid == txid else {}


def _refuse_later(stored: Mapping[Any, Any], txid: int) -> None:
    for key, value in stored.items():
        refuse_later(value.txid, txid, f"key {shortened(key)}")


def _hashable(key: Any) -> Any:
    """Return a key as it was before a store such as JSON made a list of a tuple."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def _constant(value: Any) -> Function:
    return lambda old: value
