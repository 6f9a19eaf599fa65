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
    """Return whether a committer has updated an `OpaqueMap` on this thread since the last call."""
    kept, _thread.has_journal = getattr(_thread, "has_journal", False), False
    return kept


class BackingMap(Protocol):
    """Your own store, such as a table or a hash in Redis. Its values are lists as in `TransactionalValue.encode`."""

    def multi_get(self, keys: Sequence[Any]) -> Sequence[Any]:
        """Return the values of the keys, in their order; None for a key without a value."""

    def multi_put(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        """Write a value, an encoded list, for each key. After an error, any part of them may have been written."""


class _BatchMap(ABC):
    """The common part of both maps."""

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
        """Replace values: calls `multi_update` with functions that return the new values."""
        self.multi_update(txid, {key: _constant(value) for key, value in values.items()})

    def _read(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the stored values by key, without keys that have no value."""
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
        """Apply a batch to values: one read, and one write unless all values already include the batch.

        Call it in the commit phase, in `finish_batch` of a committer, once per batch and key.

        Args:
            txid: The batch's transaction id.
            functions: For each key, a function that gets the old value or None, and returns the new value.

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

    An opaque spout may deliver a key in one try of a batch, but not in the next. So the map stores the keys of its last
    batch in a journal, and restores keys that an earlier try changed and the last try did not contain. A restored key
    stays in the store with its previous value, or None. The journal is an entry of the same store.
    """

    _kind = OpaqueValue

    def __init__(self, backing: BackingMap, *, journal: Any) -> None:
        """Create a map.

        Args:
            backing: The store.
            journal: A key of the store, for the journal. Each task needs its own key, the same in each try, such as
                `f"journal-{context.this_component_id}-{context.this_task_index}"`. Use fields grouping for the bolt's
                input, so that the same task gets a key in each try. The bolt's parallelism can change when a run has
                ended as FINISHED or STOPPED. While a batch may be half committed, a start with another parallelism is
                refused.
        """
        super().__init__(backing)
        self._journal = journal

    def multi_update(self, txid: int, functions: Mapping[Any, Function]) -> dict[Any, Any]:
        """Apply a batch to values: one read and one write, after a write of the journal.

        Call it in the commit phase, in `finish_batch` of a committer, exactly once for each batch on each task. If the
        task got no tuple, call it without functions.

        Args:
            txid: The batch's transaction id.
            functions: For each key, a function that gets the value without this batch or None, and returns the new
                value.

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
    """Convert lists in a key back to tuples: a store such as JSON has made lists of them."""
    return tuple(map(_hashable, key)) if isinstance(key, list) else key


def _constant(value: Any) -> Function:
    return lambda old: value
