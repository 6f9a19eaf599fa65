"""Converts the entries of one hash, page by page. Pure.

Each key and value is decoded, encoded as the other Storm does it, and decoded again: if the two decoded values differ,
or if a class is unknown, the entry is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from anchorbolt.errors import MigrationRefused, SerializationError
from anchorbolt.migration_tools.entries import Decoded
from anchorbolt.migration_tools.storm_state import StormOptions, form_of, part_decoder
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import JavaValue, StoredForm, StormDecoder, Tombstone, detect
from anchorbolt.storm.kryo.encoder import Encoded, StormEncoder
from anchorbolt.storm.kryo.layouts import places_of
from anchorbolt.storm.kryo.stored_form import Content
from anchorbolt.storm.kryo.values import NULL
from anchorbolt.storm.wrapper import Generation
from anchorbolt.util.messages import shortened

_UNCHANGED = "Nothing was changed"


@dataclass(frozen=True)
class StormFacts:
    """Facts from Storm's configuration that the bytes do not contain, for each Storm.

    Attributes:
        storm_1: The facts that concern Storm 1, without the classes of `topology.state.kryo.register`.
        storm_2: The facts that concern Storm 2.
    """

    storm_1: StormOptions
    storm_2: StormOptions

    def of(self, generation: Generation) -> StormOptions:
        """Return the facts that concern a generation."""
        return self.storm_2 if generation in (Generation.STORM_2_0, Generation.STORM_2_6) else self.storm_1


NO_FACTS = StormFacts(StormOptions((), (), {}, None, None), StormOptions((), (), {}, None, None))


@dataclass(frozen=True)
class ConversionOptions:
    """What to convert.

    Attributes:
        target: The generation of the Storm that will read the state.
        source: The generation of the Storm that wrote it; None to find out from the bytes.
        facts: Facts from Storm's configuration.
        dry_run: Make all checks, and write nothing.
    """

    target: Generation
    source: Generation | None = None
    facts: StormFacts = NO_FACTS
    dry_run: bool = False


def source_of(sample: list[tuple[bytes, bytes]], name: str, options: ConversionOptions) -> StoredForm | None:
    """Return how the entries of a hash are stored, or None if they are in the target's format already.

    Raises `MigrationRefused` if the entries do not show it, or show another generation than the named one.
    """
    found = detect(sample)
    if found == StoredForm(options.target, options.target.writes_base64):
        return None
    if found is None and options.source is None:
        raise MigrationRefused(
            f"{name}: its bytes do not show which Storm wrote it, or Storm's default serializer did not write it. "
            f"{_UNCHANGED}. Name the release that wrote it: --from 1.0, 1.1, 1.2, 2.0 or 2.6."
        )
    if found is None:
        return form_of(sample, name, options.source)
    if options.source is not None and options.source is not found.generation:
        raise MigrationRefused(
            f"{name} has the format of {found.generation.label}, not of {options.source.label}. "
            f"{_UNCHANGED}. Name the release that wrote it: --from {found.generation.value}, or leave out --from."
        )
    return found


class HashConversion:
    """Converts the pages of one hash, in any order. Entries may come twice."""

    def __init__(
        self, name: str, source: StoredForm, sample: list[tuple[bytes, bytes]], target: Generation, facts: StormFacts
    ) -> None:
        """`sample` are some entries, which show whether the user registered classes that were not named."""
        self.content: Content | None = None  # of conversions from Base64 to binary only
        self._name = name
        self._keys = _Part(source, sample, target, facts, is_key=True)
        self._values = _Part(source, sample, target, facts, is_key=False)

    def page(self, page: list[bytes]) -> list[bytes]:
        """Convert alternating fields and values. Raises `MigrationRefused` with the key of an entry that is refused."""
        converted = []
        for field, stored in zip(page[::2], page[1::2], strict=True):
            key = self._keys.decode(field)
            if key.problem:
                raise self._refused(shortened(field), key.problem)
            value = self._values.decode(stored)
            if value.problem:
                raise self._refused(str(key.value), value.problem)
            try:
                converted += [self._keys.encode(key), self._values.encode(value)]
            except SerializationError as error:
                raise self._refused(str(key.value), error.message) from error
        return converted

    def _refused(self, key: str, problem: str) -> MigrationRefused:
        return MigrationRefused(
            f"{self._name}: the entry with the key {key} cannot be converted: {problem}. {_UNCHANGED}."
        )


class _Part:
    """Converts the keys, or the values, of a hash."""

    def __init__(
        self,
        source: StoredForm,
        sample: list[tuple[bytes, bytes]],
        target: Generation,
        facts: StormFacts,
        *,
        is_key: bool,
    ) -> None:
        of_source, of_target = facts.of(source.generation), facts.of(target)
        self.decode = part_decoder(source, sample, of_source, is_key=is_key)
        self._is_key = is_key
        self._source = source
        self._target = target
        self._places = places_of(target, of_target.in_topology)
        classes = _classes(of_target, is_key)
        self._encoders = {place: StormEncoder(target, registered=classes, in_topology=place) for place in self._places}
        self._readers = {place: _decoder(target, of_target, is_key, place) for place in self._places}
        self._sources = {place: _decoder(source.generation, of_source, is_key, place) for place in self._places}

    def encode(self, decoded: Decoded) -> bytes:
        """Return the bytes that the target's Storm stores for a decoded part."""
        value, place = decoded.value, self._places[0]
        encoded = self._encoded(value, place)
        if encoded.own_ids_used and len(self._places) > 1:
            place, encoded = self._of_place(decoded)
        if self._read(self._readers[place], encoded.data) != self._kept(value):
            raise SerializationError(
                f"{value} would not be the same for {self._target.label}. This is a bug in Anchorbolt: "
                "report it, with this message"
            )
        if self._target.writes_base64:
            return base64_text.encode(encoded.data, in_lines=self._target is Generation.STORM_1_0)
        return encoded.data

    def _of_place(self, decoded: Decoded) -> tuple[bool, Encoded]:
        """Return the bytes of a part with registered classes: in a topology, or outside, as its source shows."""
        data = base64_text.decode(decoded.data) if self._source.base64 else decoded.data
        assert data is not None
        found = {
            self._encoded(decoded.value, place): place
            for place in self._places
            if self._is_of(place, data, decoded.value)
        }
        if len(found) != 1:
            raise SerializationError(
                "it holds a class that Storm 2 stores by a number, and numbers differently in a topology and in a "
                "state that a program created itself. Name the place: --in-topology or --outside-topology"
            )
        [(encoded, place)] = found.items()
        return place, encoded

    def _is_of(self, place: bool, data: bytes, value: JavaValue) -> bool:
        try:
            return self._read(self._sources[place], data) == value
        except SerializationError:
            return False

    def _read(self, decoder: StormDecoder, data: bytes) -> JavaValue:
        return decoder.decode_key(data) if self._is_key else decoder.decode_value(data)

    def _encoded(self, value: JavaValue, place: bool) -> Encoded:
        encoder = self._encoders[place]
        return encoder.encode_key(value) if self._is_key else encoder.encode_value(value)

    def _kept(self, value: JavaValue) -> JavaValue:
        """Return the value that is read back. Storm 1.0 has no tombstones."""
        return NULL if isinstance(value, Tombstone) and self._target is Generation.STORM_1_0 else value


def _classes(facts: StormOptions, is_key: bool) -> Sequence[str]:
    return facts.key_classes if is_key else facts.value_classes


def _decoder(generation: Generation, facts: StormOptions, is_key: bool, place: bool) -> StormDecoder:
    return StormDecoder(generation, registered=_classes(facts, is_key), enums=facts.enums, in_topology=place)
