"""The two kinds of values that make updates of an outside store exact, and the rules to update them.

`TransactionalValue` is for spouts that emit the same batch in each try. `OpaqueValue` is for any spout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from anchorbolt.errors import StateCorrupted, StateError
from anchorbolt.util.messages import shortened

V = TypeVar("V")


@dataclass(frozen=True)
class TransactionalValue(Generic[V]):
    """A value, and the last batch that updated it.

    Attributes:
        value: The value.
        txid: The transaction id of that batch.
    """

    value: V
    txid: int

    def encode(self) -> list[Any]:
        """Return `[value, txid]`, which JSON and msgpack can hold if they can hold the value."""
        return [self.value, self.txid]

    @classmethod
    def decode(cls, encoded: Any) -> TransactionalValue[Any]:
        """Decode the list of `encode`, or an equal tuple. Raises `StateCorrupted` for anything else."""
        return cls(*_parts(cls, encoded, 2))


@dataclass(frozen=True)
class OpaqueValue(Generic[V]):
    """A value, the last batch that updated it, and the value before that batch.

    Attributes:
        value: The value.
        txid: The transaction id of that batch.
        previous: The value without that batch; None if there was none.
    """

    value: V
    txid: int
    previous: V | None = None

    def encode(self) -> list[Any]:
        """Return `[value, txid, previous]`, which JSON and msgpack can hold if they can hold the values."""
        return [self.value, self.txid, self.previous]

    @classmethod
    def decode(cls, encoded: Any) -> OpaqueValue[Any]:
        """Decode the list of `encode`, or an equal tuple. Raises `StateCorrupted` for anything else."""
        return cls(*_parts(cls, encoded, 3))


def update_transactional(
    stored: TransactionalValue[V] | None, txid: int, function: Callable[[V | None], V]
) -> TransactionalValue[V]:
    """Return the value to store after a batch: each batch counts once, however often it is tried.

    Exact only if each try of a batch has the same tuples, as with a `PartitionedTransactionalSpout`.

    Args:
        stored: The stored value; None if there is none.
        txid: The batch's transaction id.
        function: Gets the old value or None; returns the new value. Not called if `stored` includes the batch.

    Raises:
        StateError: `stored` has a higher txid: it belongs to another history of the topology.
    """
    if stored is None:
        return TransactionalValue(function(None), txid)
    refuse_later(stored.txid, txid, shortened(stored))
    return stored if stored.txid == txid else TransactionalValue(function(stored.value), txid)


def update_opaque(stored: OpaqueValue[V] | None, txid: int, function: Callable[[V | None], V]) -> OpaqueValue[V]:
    """Return the value to store after a batch: of several tries of a batch, the last one counts.

    Exact for any spout if each try of a batch updates the value. If the last try may not update a value that an earlier
    try updated, use `OpaqueMap`, which takes the earlier update back.

    Args:
        stored: The stored value; None if there is none.
        txid: The batch's transaction id.
        function: Gets the value without this batch or None; returns the new value.

    Raises:
        StateError: `stored` has a higher txid: it belongs to another history of the topology.
    """
    if stored is None:
        return OpaqueValue(function(None), txid)
    refuse_later(stored.txid, txid, shortened(stored))
    before = stored.previous if stored.txid == txid else stored.value
    return OpaqueValue(function(before), txid, before)


def refuse_later(stored_txid: int, txid: int, what: str) -> None:
    """Raise `StateError` if a later batch than `txid` updated the stored value; `what` names it in the message."""
    if stored_txid > txid:
        raise StateError(
            f"the store holds {what}, updated by batch {stored_txid}, but the topology is at batch {txid}. The store "
            "belongs to another history of the topology: empty it, or continue from the progress that belongs to it."
        )


def _parts(kind: type, encoded: Any, number: int) -> list[Any]:
    parts = list(encoded) if isinstance(encoded, list | tuple) else []
    if len(parts) != number or type(parts[1]) is not int or parts[1] < 1:
        raise StateCorrupted(
            f"the store holds {shortened(encoded)}, which {kind.__name__}.encode did not write. Restore the store, or "
            "use other keys for other values."
        )
    return parts
