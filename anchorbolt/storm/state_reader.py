"""Reads a namespace of Storm's in Redis, written by Storm's default serializer: `ns`, `ns$prepare` and `ns$txid`.

A key or value that needs a class of the user's is returned as bytes with a problem that names the class.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol

from anchorbolt.errors import ConfigError, MigrationRefused, SerializationError, StateError
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import JavaValue, StoredForm, StormDecoder, detect
from anchorbolt.storm.wrapper import Generation

_SAMPLE_ENTRIES = 500
_IN_DOUBT = (
    "an object is of a class with a registered id, and other entries show that the user registered classes. Name "
    "the classes that Storm's configuration registers: keyClass, valueClass, topology.state.kryo.register"
)


class Hashes(Protocol):
    """A store of hashes."""

    def types(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        """Return the type of each key as Redis names it: `hash`, or `none` if the key does not exist."""

    def length(self, key: bytes) -> int:
        """Return the number of fields, 0 if the hash does not exist."""

    def entries(self, key: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the fields and values of a hash in pages."""


@dataclass(frozen=True)
class StormOptions:
    """Facts from Storm's configuration that the bytes do not contain."""

    key_classes: Sequence[str] = ()  # in the order of their registration
    value_classes: Sequence[str] = ()
    enums: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the user's: constants by class
    in_topology: bool | None = None  # whether a topology wrote the state; None to find out from the bytes
    generation: Generation | None = None  # None to find out from the bytes


@dataclass(frozen=True)
class StormPart:
    """A key or a value."""

    data: bytes  # as stored
    value: JavaValue | None  # None if it cannot be decoded
    problem: str = ""  # why it cannot be decoded


@dataclass(frozen=True)
class StormEntry:
    """One entry of a namespace."""

    key: StormPart
    value: StormPart
    prepared: bool  # in `ns$prepare`


class StormState:
    """One namespace of Storm's. `txids` are the fields of `ns$txid`; `form` is None if there are no entries."""

    def __init__(self, hashes: Hashes, name: str, options: StormOptions) -> None:
        """Read a sample. Raise `StateError` without such a namespace, `MigrationRefused` if its form is unclear."""
        self._hashes = hashes
        self._names = (name, f"{name}$prepare")
        self.txids = {
            each.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for page in self._pages(f"{name}$txid")
            for each, value in page
        }
        self.count = sum(map(self._length, self._names))
        if not self.count and not self.txids:
            raise StateError(
                f"there is neither a hash {name!r} nor {name}$prepare nor {name}$txid. Storm names a namespace "
                "<component>-<task id>; redis-cli --scan --pattern '*$txid' lists them.",
                namespace=name,
            )
        sample = self._sample() if self.count else []
        self.form = _form(sample, name, options.generation) if self.count else None
        self._decoders: dict[bool, StormDecoder] = {}  # of keys (True) and of values
        self._in_doubt: dict[bool, bool] = {}
        if self.form is None:
            return
        generation = self.form.generation
        for is_key, classes in ((True, options.key_classes), (False, options.value_classes)):
            self._decoders[is_key] = decoder = StormDecoder(
                generation, registered=classes, enums=options.enums, in_topology=options.in_topology
            )
            # Storm 2 registers java.util.Optional; a class of the user's may have the id that is assumed for it.
            self._in_doubt[is_key] = (
                generation in (Generation.STORM_2_0, Generation.STORM_2_6)
                and not classes
                and any(decoder.misfits(entry[not is_key], is_key=is_key) for entry in sample)
            )

    def pages(self) -> Iterator[list[StormEntry]]:
        """Yield all entries in pages, the committed ones first."""
        for name in self._names:
            prepared = name != self._names[0]
            for page in self._pages(name):
                yield [StormEntry(self._part(key, True), self._part(value, False), prepared) for key, value in page]

    def _part(self, data: bytes, is_key: bool) -> StormPart:
        assert self.form is not None, "there are entries"
        decoded = base64_text.decode(data) if self.form.base64 else data
        if decoded is None:
            return StormPart(data, None, "not the Base64 text that the other entries are")
        decoder = self._decoders[is_key]
        if self._in_doubt[is_key] and decoder.holds_registered(decoded, is_key=is_key):
            return StormPart(data, None, _IN_DOUBT)
        try:
            value = decoder.decode_key(decoded) if is_key else decoder.decode_value(decoded)
        except SerializationError as error:
            return StormPart(data, None, error.message)
        return StormPart(data, value)

    def _sample(self) -> list[tuple[bytes, bytes]]:
        pages = chain.from_iterable(map(self._pages, self._names))
        return list(islice((entry for page in pages for entry in page), _SAMPLE_ENTRIES))

    def _pages(self, name: str) -> Iterator[list[tuple[bytes, bytes]]]:
        return self._hashes.entries(name.encode()) if self._length(name) else iter(())

    def _length(self, name: str) -> int:
        try:
            key = name.encode()
        except UnicodeEncodeError:  # Python's form of arguments that are not UTF-8
            raise ConfigError(f"{name!r} is not UTF-8, and Storm's names are. Name a namespace of Storm's.") from None
        kind = self._hashes.types([key])[key]
        if kind not in ("hash", "none"):
            raise StateError(f"{name!r} holds a {kind}, not a hash. Name a namespace of Storm's.", namespace=name)
        return self._hashes.length(key)


def _form(sample: list[tuple[bytes, bytes]], name: str, generation: Generation | None) -> StoredForm:
    if generation is None:
        found = detect(sample)
        if found is None:
            raise MigrationRefused(
                f"{name}: its bytes do not show which Storm wrote it, or Storm's default serializer did not write it. "
                "Name the release: --storm 1.0, 1.1, 1.2, 2.0 or 2.6."
            )
        return found
    # The majority decides, so that a damaged entry does not. Kryo's bytes are hardly ever Base64 by chance.
    texts = [base64_text.decode(part) is not None for entry in sample for part in entry]
    is_text = 2 * sum(texts) > len(texts)
    return StoredForm(generation, base64=is_text and generation in (Generation.STORM_1_0, Generation.STORM_1_1))
