"""Keys and values of one namespace as Storm's default serializer wrote them: bytes in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm.kryo.layouts import layout_of
from anchorbolt.storm.kryo.object_reader import Layout, ObjectReader
from anchorbolt.storm.kryo.values import JavaValue, Tombstone
from anchorbolt.storm.wrapper import Generation, unwrap


class _Outcome(NamedTuple):
    value: JavaValue | None
    error: SerializationError | None
    own_ids_used: bool


class StormDecoder:
    """Decodes keys, or values, that were written with one configuration. Never runs code, never guesses.

    Where classes are registered, Storm's serializers of keys and of values have different ones (`keyClass`,
    `valueClass`), so they need a decoder each. One decoder may be used by several threads.
    """

    def __init__(
        self,
        generation: Generation,
        *,
        registered: Sequence[str] = (),
        enums: Mapping[str, Sequence[str]] | None = None,
        in_topology: bool | None = None,
    ) -> None:
        """Make a decoder.

        Args:
            generation: Which Storm wrote the bytes.
            registered: The Java classes that Storm's configuration registers for these keys or values, in its order:
                `keyClass` or `valueClass` of `topology.state.provider.config`, and what `topology.state.kryo.register`
                lists.
            enums: The user's enums: the constants in their order, by the enum's Java class. Of other enums the class
                is unsupported: their bytes cannot be told from those of any class with one number in it.
            in_topology: Storm 2 numbers registered classes otherwise in a topology than in a state that a program
                made by itself. None finds out from the bytes, and refuses those that would mean one thing here and
                another there.
        """
        known = {name: tuple(constants) for name, constants in (enums or {}).items()}
        storm_2 = generation in (Generation.STORM_2_0, Generation.STORM_2_6)
        places = (True, False) if storm_2 and in_topology is None else (bool(in_topology),)
        self._generation = generation
        self._layouts = [layout_of(generation, registered, known, in_topology=place) for place in places]

    def decode_key(self, data: bytes) -> JavaValue:
        """Decode a key: the field of Storm's hash, its Base64 taken off.

        Raises:
            UnsupportedJavaClass: It holds an object of a class that cannot be read; the key as a whole is unsupported.
            SerializationError: It is no key of this generation.
        """
        return self._decoded(data)

    def decode_value(self, data: bytes) -> JavaValue:
        """Decode a value as Storm keeps it, with its wrapper, its Base64 taken off; a `Tombstone` where it is one.

        Raises:
            UnsupportedJavaClass: It holds an object of a class that cannot be read; the value as a whole is
                unsupported.
            SerializationError: It is no value of this generation.
        """
        if self._generation is Generation.STORM_1_0:
            return self._decoded(data)
        wrapped = unwrap(data, self._generation)
        if wrapped is None:
            raise SerializationError(
                f"{len(data)} bytes are not a value as {self._generation.label} keeps it: its wrapper is not around "
                "them. Look which Storm wrote them, and whether they are Base64 text"
            )
        return Tombstone() if wrapped.payload is None else self._decoded(wrapped.payload)

    def holds_registered(self, data: bytes, *, is_key: bool) -> bool:
        """Return whether a key or a value holds an object of a class that is there by a registered id, not its name."""
        payload = self._payload(data, is_key)
        return payload is not None and _read(payload, self._layouts[0]).own_ids_used

    def misfits(self, data: bytes, *, is_key: bool) -> bool:
        """Return whether a key or a value with a registered id can be read in no way, whatever class of whose is in it.

        Then it is damaged, or other classes are registered than the decoder was told.
        """
        payload = self._payload(data, is_key)
        if payload is None:
            return False
        outcomes = [_read(payload, layout) for layout in self._layouts]
        return outcomes[0].own_ids_used and not any(map(_fits, outcomes))

    def _payload(self, data: bytes, is_key: bool) -> bytes | None:
        if is_key or self._generation is Generation.STORM_1_0:
            return data
        wrapped = unwrap(data, self._generation)
        return None if wrapped is None else wrapped.payload

    def _decoded(self, payload: bytes) -> JavaValue:
        first = _read(payload, self._layouts[0])
        if len(self._layouts) > 1 and first.own_ids_used:
            return _result([first, _read(payload, self._layouts[1])])
        return first.value if first.value is not None else _result([first])


def _read(payload: bytes, layout: Layout) -> _Outcome:
    reader = ObjectReader(payload, layout)
    try:
        value = reader.whole()
        if reader.opaque:
            reader.unsupported(reader.opaque[0])
    except SerializationError as error:
        return _Outcome(None, error, reader.own_ids_used)
    return _Outcome(value, None, reader.own_ids_used)


def _fits(outcome: _Outcome) -> bool:
    """Whether the ids were right. An unknown one, or bytes that do not fit, say no; a class by its name does not."""
    error = outcome.error
    return error is None or (isinstance(error, UnsupportedJavaClass) and error.class_id is None)


def _result(outcomes: Sequence[_Outcome]) -> JavaValue:
    """Return the value, if there is just one way to read the bytes. Raises what stands against it otherwise."""
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    unsupported = [each.error for each in outcomes if each.error is not None and _fits(each)]
    if values and not unsupported and all(value == values[0] for value in values):
        return values[0]
    if values:
        raise SerializationError(
            "the ids of registered classes mean one thing in a topology and another outside of one, and these bytes "
            "can be read as both. Say which it was (in_topology)"
        )
    raise (unsupported or errors)[0]
