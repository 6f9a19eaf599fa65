"""Reads a Storm namespace, written by Storm's default serializer: the hashes `ns`, `ns$prepare` and `ns$txid`.

A key or value that needs a user's class is returned as bytes, with a problem that names the class.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol

from anchorbolt.config.providers import PROVIDER_CONFIG, HBaseSettings
from anchorbolt.errors import ConfigError, MigrationRefused, SerializationError, StateError
from anchorbolt.migration_tools.entries import Decoded, Entry
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.redis.errors import Advice
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import StoredForm, StormDecoder, detect
from anchorbolt.storm.wrapper import Generation

SAMPLE_ENTRIES = 500
_IN_DOUBT = (
    "an object is of a class with a registered id, and other entries show that the user registered classes. Name "
    "the classes that Storm's configuration registers: keyClass, valueClass, topology.state.kryo.register"
)


@dataclass(frozen=True)
class StormOptions:
    """Facts from Storm's configuration that the bytes do not contain."""

    key_classes: Sequence[str]  # in the order of their registration
    value_classes: Sequence[str]
    enums: Mapping[str, Sequence[str]]  # the constants of the user's enums, by class
    in_topology: bool | None  # whether a topology wrote the state; None to find out from the bytes
    generation: Generation | None  # None to find out from the bytes


class StormHashes(Protocol):
    """Storm's hashes in a store, to be read. HBase keeps them in rows, but its reader shows them as hashes."""

    @property
    def listing(self) -> str: ...

    def describe(self) -> str: ...

    def names(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the names of hashes that start with `prefix`; a name may come twice."""

    def types(self, keys: Sequence[bytes]) -> Mapping[bytes, str]: ...

    def length(self, key: bytes) -> int: ...

    def entries(self, key: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the fields and values of a hash in pages; an entry may come twice."""

    def fields(self, key: bytes, fields: Sequence[bytes]) -> list[bytes | None]: ...


@contextmanager
def scan_storm(
    provider: StateProvider, name: str, options: StormOptions
) -> Iterator[tuple[list[str], Iterator[list[Entry]], int]]:
    """Yield notes, all entries of a namespace in pages, the committed ones first, and their number.

    Raises `StateError` if there is no such namespace, `MigrationRefused` if its form is unclear.
    """
    with open_hashes(provider) as hashes:
        names = {name: False, f"{name}$prepare": True}  # whether the entries are prepared
        txids = dict(entry for page in pages_of(hashes, f"{name}$txid") for entry in page)
        count = sum(length_of(hashes, each) for each in names)
        if not count and not txids:
            raise StateError(
                f"{hashes.describe()} has neither a hash {name!r} nor {name}$prepare nor {name}$txid. Storm names a "
                f"namespace <component>-<task id>. This lists them: {hashes.listing}.",
                namespace=name,
            )
        notes = []
        pages: Iterator[list[Entry]] = iter(())
        if count:
            stored = chain.from_iterable(page for each in names for page in pages_of(hashes, each))
            sample = list(islice(stored, SAMPLE_ENTRIES))
            form = form_of(sample, name, options.generation)
            notes.append(f"written by {form.generation.label}{', as Base64 text' if form.base64 else ''}")
            key = part_decoder(form, sample, options, is_key=True)
            value = part_decoder(form, sample, options, is_key=False)
            pages = (
                [Entry(key(stored_key), value(stored_value), prepared) for stored_key, stored_value in page]
                for each, prepared in names.items()
                for page in pages_of(hashes, each)
            )
        if txids:
            texts = sorted(
                (each.decode("utf-8", "replace"), txid.decode("utf-8", "replace")) for each, txid in txids.items()
            )
            notes.append(f"{name}$txid: {', '.join(f'{each} {txid!r}' for each, txid in texts)}")
        yield notes, pages, count


def open_hashes(provider: StateProvider) -> AbstractContextManager[StormHashes]:
    """Return Storm's hashes in the provider's store. Raises `ConfigError` if Storm keeps no state in such a store."""
    if isinstance(provider, HBaseSettings):
        from anchorbolt.state_backends.hbase.storm_rows import StormRows  # its packages may not be installed

        return StormRows(provider)
    if not isinstance(provider, RedisStateProvider | RedisClusterStateProvider):
        raise ConfigError(
            f"Storm's state is in Redis or HBase, but the configuration names {provider.describe()}. Set "
            "topology.state.provider to redis, redis-cluster or hbase.",
            key=PROVIDER_CONFIG,
        )
    return RedisHashes(provider.address, Advice(not_ours="Name a namespace of Storm's"))


def part_decoder(
    form: StoredForm, sample: list[tuple[bytes, bytes]], options: StormOptions, *, is_key: bool
) -> Callable[[bytes], Decoded]:
    """Return the function that decodes the keys, or the values, of a namespace."""
    classes = options.key_classes if is_key else options.value_classes
    decoder = StormDecoder(form.generation, registered=classes, enums=options.enums, in_topology=options.in_topology)
    decode = decoder.decode_key if is_key else decoder.decode_value
    # Storm 2 registers java.util.Optional; a user's class may have the id assumed for it.
    in_doubt = (
        form.generation in (Generation.STORM_2_0, Generation.STORM_2_6)
        and not classes
        and any(decoder.misfits(entry[not is_key], is_key=is_key) for entry in sample)
    )

    def decoded(data: bytes) -> Decoded:
        encoded = base64_text.decode(data) if form.base64 else data
        if encoded is None:
            return Decoded(data, problem="not the Base64 text that the other entries are")
        if in_doubt and decoder.holds_registered(encoded, is_key=is_key):
            return Decoded(data, problem=_IN_DOUBT)
        try:
            return Decoded(data, decode(encoded))
        except SerializationError as error:
            return Decoded(data, problem=error.message)

    return decoded


def pages_of(hashes: StormHashes, name: str) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the fields and values of a hash, nothing if it does not exist; an entry may come twice."""
    return hashes.entries(name.encode()) if _is_hash(hashes, name) else iter(())


def length_of(hashes: StormHashes, name: str) -> int:
    """Return the number of fields of a hash. Raises `StateError` if the key is not a hash."""
    return hashes.length(name.encode()) if _is_hash(hashes, name) else 0


def form_of(sample: list[tuple[bytes, bytes]], name: str, generation: Generation | None) -> StoredForm:
    """Return how these entries are stored. Raises `MigrationRefused` if they do not show it."""
    if generation is None:
        found = detect(sample)
        if found is None:
            raise MigrationRefused(
                f"{name}: its bytes do not show which Storm wrote it, or Storm's default serializer did not write it. "
                "Name the release: --storm 1.0, 1.1, 1.2, 2.0 or 2.6."
            )
        return found
    # The majority decides, not a single damaged entry. Kryo's bytes are hardly ever Base64 by chance.
    texts = [base64_text.decode(part) is not None for entry in sample for part in entry]
    is_text = 2 * sum(texts) > len(texts)
    return StoredForm(generation, base64=is_text and generation in (Generation.STORM_1_0, Generation.STORM_1_1))


def _is_hash(hashes: StormHashes, name: str) -> bool:
    """Return whether a hash exists. Raises `StateError` if the key is not a hash."""
    try:
        key = name.encode()
    except UnicodeEncodeError:  # Python's form of arguments that are not UTF-8
        raise ConfigError(f"{name!r} is not UTF-8, and Storm's names are. Name a namespace of Storm's.") from None
    kind = hashes.types([key])[key]
    if kind not in ("hash", "none"):
        raise StateError(f"{name!r} holds a {kind}, not a hash. Name a namespace of Storm's.", namespace=name)
    return kind == "hash"
