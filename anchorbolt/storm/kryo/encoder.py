"""Encodes keys and values as Storm's default serializer writes them."""

from collections.abc import Sequence
from typing import NamedTuple

from anchorbolt.storm.kryo.kinds import written_kind
from anchorbolt.storm.kryo.layouts import layout_of
from anchorbolt.storm.kryo.object_writer import ObjectWriter
from anchorbolt.storm.kryo.values import NULL, JavaValue, Tombstone
from anchorbolt.storm.wrapper import Generation, wrap


class Encoded(NamedTuple):
    """The bytes of a key or a value, and whether they name a class by an id that Storm's configuration decides."""

    data: bytes
    own_ids_used: bool


class StormEncoder:
    """Encodes the values that a `StormDecoder` returned, to the bytes that one release writes for an equal object.

    What Java would write as one object, such as a list that occurs twice in another list, must be one Python object.
    The decoder sees to it if the source is of a Storm before 2.6; a later one does not write what is the same object.
    """

    def __init__(self, generation: Generation, *, registered: Sequence[str] = (), in_topology: bool = False) -> None:
        """Make an encoder. The arguments are those of `StormDecoder`, for the Storm that will read the bytes."""
        self._generation = generation
        self._layout = layout_of(generation, registered, {}, in_topology=in_topology, kinds=written_kind)

    def encode_key(self, value: JavaValue) -> Encoded:
        """Encode a key. Raises `SerializationError` if this release cannot write it, because it contains itself."""
        writer = ObjectWriter(self._layout)
        writer.class_and_object(value)
        return Encoded(bytes(writer.bytes.data), writer.own_ids_used)

    def encode_value(self, value: JavaValue) -> Encoded:
        """Encode a value, and wrap it. The errors are those of `encode_key`.

        Storm 1.0 has no tombstones, and cannot delete. A null value says the same: `get` returns null for it.
        """
        if self._generation is Generation.STORM_1_0:
            return self.encode_key(NULL if isinstance(value, Tombstone) else value)
        if isinstance(value, Tombstone):
            return Encoded(wrap(None, self._generation), False)
        payload, own_ids_used = self.encode_key(value)
        return Encoded(wrap(payload, self._generation), own_ids_used)
