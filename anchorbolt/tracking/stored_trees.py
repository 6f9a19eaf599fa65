"""A tuple tree that is open between two waves, its encoding, and the state of an acker: such trees by root.

An entry takes only 20 bytes besides the message id, because there is one for each message that waits in a bolt.
"""

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from anchorbolt.errors import SerializationError, UnsupportedValue
from anchorbolt.serialization import Codec
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.key_value import KeyValueState

_CACHE_ENTRIES = 32_768
_PENDING_ENTRIES = 16_384

_ROOT = struct.Struct("<Q")
_TREE = struct.Struct("<QHH")  # and the message id


class OpenTree(NamedTuple):
    """A tree with tuples that are neither acked nor failed."""

    ack_val: int  # XOR of the ids of those tuples; not zero
    spout_task: int  # id of the spout's task that emitted the message
    holder: int  # id of the last task that began to hold a tuple
    msg_id: bytes  # the packed id of the message


class RootCodec(Codec):
    """Stores a root in 8 bytes."""

    name = "root"
    version = 1

    def encode(self, value: Any) -> bytes:
        """Encode a root. Raises `UnsupportedValue` if it has more than 64 bits."""
        try:
            return _ROOT.pack(value)
        except struct.error as error:
            raise UnsupportedValue(f"cannot encode {value!r} as the root of a tuple tree: {error}") from error

    def encode_many(self, values: Iterable[Any]) -> list[bytes]:
        """Encode roots, faster than one by one."""
        values = list(values)
        try:
            return list(map(_ROOT.pack, values))
        except struct.error:
            return [self.encode(value) for value in values]  # raises an error that names the value

    def decode(self, data: bytes) -> int:
        """Decode a root. Raises `SerializationError` if `data` does not have 8 bytes."""
        if len(data) != _ROOT.size:
            raise SerializationError(f"the root of a tuple tree has {_ROOT.size} bytes, not {len(data)}")
        root: int = _ROOT.unpack(data)[0]
        return root


class OpenTreeCodec(Codec):
    """Stores an `OpenTree` in 12 bytes and its message id."""

    name = "open-tree"
    version = 1

    def encode(self, value: Any) -> bytes:
        """Encode a tree. Raises `UnsupportedValue` if a number is too large."""
        try:
            numbers = _TREE.pack(value.ack_val, value.spout_task, value.holder)
        except struct.error as error:
            raise UnsupportedValue(f"cannot encode the open tuple tree {value!r}: {error}") from error
        msg_id: bytes = value.msg_id
        return numbers + msg_id

    def decode(self, data: bytes) -> OpenTree:
        """Decode a tree. Raises `SerializationError` if the bytes are damaged, or belong to a complete tree."""
        if len(data) < _TREE.size:
            raise SerializationError(f"an open tuple tree has at least {_TREE.size} bytes, not {len(data)}")
        ack_val, spout_task, holder = _TREE.unpack_from(data)
        if ack_val == 0:
            raise SerializationError("the tuple tree is complete, and a complete tree is not stored")
        return OpenTree(ack_val, spout_task, holder, data[_TREE.size :])


TREE_HEADER = EntryEncoding("", RootCodec(), OpenTreeCodec()).header
"""The format header of an acker's namespace."""

TreeState = KeyValueState[int, OpenTree]


def tree_state(storage: StateStorage, budget: CacheBudget | None = None) -> TreeState:
    """Make the state of an acker over its namespace: it is `ledger.OpenTrees` and `placement.Trees`.

    It keeps few entries in memory, whatever the number of open trees: most trees are written once, read once and
    removed.
    """
    return KeyValueState(
        storage,
        key_codec=RootCodec(),
        value_codec=OpenTreeCodec(),
        cache_entries=_CACHE_ENTRIES,
        pending_entries=_PENDING_ENTRIES,
        budget=budget,
    )
