"""A tuple tree that is open between two waves, and the codecs of its root and of itself in the acker's state.

An entry has 20 bytes besides the message id: it is kept for every tuple that waits in a bolt.
"""

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from anchorbolt.errors import SerializationError, UnsupportedValue
from anchorbolt.serialization import Codec

_ROOT = struct.Struct("<Q")
_TREE = struct.Struct("<QHH")  # and the message id


class OpenTree(NamedTuple):
    """A tree with tuples that are neither acked nor failed."""

    ack_val: int  # XOR of the ids of those tuples; not zero
    spout_task: int  # id of the spout's task that emitted the message
    holder: int  # id of the task that last came to hold a tuple
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
        """Encode roots; faster than one by one."""
        values = list(values)
        try:
            return list(map(_ROOT.pack, values))
        except struct.error:
            return [self.encode(value) for value in values]  # raises again, and names the value

    def decode(self, data: bytes) -> int:
        """Decode a root. Raises `SerializationError` if these are not 8 bytes."""
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
        """Decode a tree. Raises `SerializationError` if the bytes are none, or those of a complete tree."""
        if len(data) < _TREE.size:
            raise SerializationError(f"an open tuple tree has at least {_TREE.size} bytes, not {len(data)}")
        ack_val, spout_task, holder = _TREE.unpack_from(data)
        if ack_val == 0:
            raise SerializationError("the tuple tree is complete, and a complete tree is not stored")
        return OpenTree(ack_val, spout_task, holder, data[_TREE.size :])
