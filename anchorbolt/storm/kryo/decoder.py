"""Decodes the keys and values of one namespace that Storm's default serializer wrote."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anchorbolt.errors import SerializationError, UnsupportedJavaClass
from anchorbolt.storm.kryo.layouts import layout_of, places_of
from anchorbolt.storm.kryo.object_reader import Layout, ObjectReader
from anchorbolt.storm.kryo.values import JavaValue, Tombstone
from anchorbolt.storm.wrapper import Generation, unwrap


class _Outcome(NamedTuple):
    own_ids_used: bool
    value: JavaValue | None
    error: SerializationError | None = None

    @property
    def fits(self) -> bool:
        """Whether the ids were right: no error, or only an unsupported class that the bytes name."""
        return self.error is None or (isinstance(self.error, UnsupportedJavaClass) and self.error.class_id is None)


class StormDecoder:
    """Decodes keys, or values, that were written with one configuration. It never runs code and never guesses.

    Storm's serializers of keys and of values register different classes (`keyClass`, `valueClass`). So if there are
    registered classes, use one decoder for keys and one for values. Several threads may use one decoder.
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
            generation: The generation of the Storm that wrote the bytes.
            registered: The Java classes that Storm's configuration registers for these keys or values, in its order:
                `keyClass` or `valueClass` of `topology.state.provider.config`, and the classes of
                `topology.state.kryo.register`.
            enums: The user's enums: the constants in their order, by the enum's Java class. Other enums are
                unsupported: their bytes look like the bytes of any class with one number.
            in_topology: Storm 2 numbers registered classes differently in a topology and in a state that a program
                created itself. None finds out from the bytes, and refuses bytes that have a meaning in both.
        """
        known = {name: tuple(constants) for name, constants in (enums or {}).items()}
        self._generation = generation
        self._layouts = [
            layout_of(generation, registered, known, in_topology=place) for place in places_of(generation, in_topology)
        ]

    def decode_key(self, data: bytes) -> JavaValue:
        """Decode a key: a field of Storm's hash, after Base64 decoding.

        Raise `UnsupportedJavaClass` if it holds an object of a class that cannot be read, so that no part of the key is
        returned, and `SerializationError` if it is not a key of this generation.
        """
        return self._decoded(data)

    def decode_value(self, data: bytes) -> JavaValue:
        """Decode a value with its wrapper, after Base64 decoding. A deleted key gives a `Tombstone`.

        The errors are those of `decode_key`.
        """
        if self._generation is Generation.STORM_1_0:
            return self._decoded(data)
        wrapped = unwrap(data, self._generation)
        if wrapped is None:
            raise SerializationError(
                f"{len(data)} bytes are not a value of {self._generation.label}: they do not have its wrapper. Check "
                "which Storm wrote them, and whether they are Base64 text"
            )
        return Tombstone() if wrapped.payload is None else self._decoded(wrapped.payload)

    def holds_registered(self, data: bytes, *, is_key: bool) -> bool:
        """Return whether a key or a value names the class of an object by a registered id."""
        payload = self._payload(data, is_key)
        return payload is not None and _read(payload, self._layouts[0]).own_ids_used

    def misfits(self, data: bytes, *, is_key: bool) -> bool:
        """Return True if no class the user could have registered explains these bytes.

        Then they are damaged, or Storm's configuration registered other classes than this decoder has.
        """
        payload = self._payload(data, is_key)
        if payload is None:
            return False
        outcomes = [_read(payload, layout) for layout in self._layouts]
        return outcomes[0].own_ids_used and not any(outcome.fits for outcome in outcomes)

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
        return _Outcome(reader.own_ids_used, None, error)
    return _Outcome(reader.own_ids_used, value)


def _result(outcomes: Sequence[_Outcome]) -> JavaValue:
    """Return the value if all successful ways to read the bytes agree on it. Raise the error otherwise."""
    values = [outcome.value for outcome in outcomes if outcome.value is not None]
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    unsupported = [each.error for each in outcomes if each.error is not None and each.fits]
    if values and not unsupported and all(value == values[0] for value in values):
        return values[0]
    if values:
        raise SerializationError(
            "the ids of registered classes differ inside and outside of a topology, and these bytes can be read both "
            "ways. Name the right one (in_topology)"
        )
    raise (unsupported or errors)[0]
