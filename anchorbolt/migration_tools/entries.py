"""Lists the namespaces of a store, and reads some or all entries of a namespace. No fence is raised.

Entries are read in pages, so the size of a namespace does not matter. Keys and values are decoded with the codecs that
the namespace's format header names. If no known codec can decode a key or value, the result keeps the bytes and the
reason. Values are unpickled only if the configuration chooses pickle: unpickling runs code, and anyone who can write to
the store may have written it.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.errors import ConfigError, SerializationError, StateCorrupted, StateError, StateRegressed
from anchorbolt.migration_tools import Progress
from anchorbolt.serialization.codecs import (
    FIRST_VERSION,
    Codec,
    JsonCodec,
    JsonKeyCodec,
    MsgpackCodec,
    MsgpackKeyCodec,
    untagged,
    untagged_many,
)
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, NamespaceHead, StateProvider, StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.rules import is_namespace, task_namespace
from anchorbolt.state_backends.timed.expiry import Live, live, live_entry
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.tracking.stored_trees import OpenTreeCodec, RootCodec
from anchorbolt.util.messages import did_you_mean
from anchorbolt.util.values import key_from_text

_NAMES_COMPARED = 10_000
_HEADER = re.compile(r"keys (\S+), values (\S+)")


@dataclass(frozen=True)
class Codecs:
    keys: Codec
    values: Codec


@dataclass(frozen=True)
class Decoded:
    data: bytes  # as stored
    value: Any = None
    problem: str = ""  # why it could not be decoded; empty if it was
    version: int = FIRST_VERSION  # schema version of a value

    @property
    def shown(self) -> Any:
        """The value, or the stored bytes if they could not be decoded."""
        return self.data if self.problem else self.value


@dataclass(frozen=True)
class Entry:
    """One entry; `value` is None for a key without a value."""

    key: Decoded
    value: Decoded | None
    prepared: bool | None = None  # for an entry of Storm: whether it is in `ns$prepare`
    expires_at: int | None = None  # ms since 1970; None for an entry that stays


class EntryDecoder:
    """Decodes the entries of one namespace; `notes` say why keys or values cannot be decoded."""

    def __init__(self, namespace: str, header: str, configured: Codecs) -> None:
        self._namespace = namespace
        self._keys: Codec | str = configured.keys
        self._values: Codec | str = configured.values
        if match := _HEADER.fullmatch(header):
            self._keys = _codec(match[1], configured.keys, "key")
            self._values = _codec(match[2], configured.values, "value")
        elif header:  # without a header, the namespace has no entries yet
            self._keys = self._values = f"the namespace has the unknown format header {header!r}"
            if header == CUSTOM_HEADER:
                self._keys = self._values = "the namespace belongs to a custom state, and has no entries"
        self.notes = tuple(dict.fromkeys(each for each in (self._keys, self._values) if isinstance(each, str)))

    def entry(self, key: bytes, stored: Live | None) -> Entry:
        """Decode an entry without applying `upcast`."""
        decoded = _decoded(self._keys, key, is_tagged=False)
        if stored is None:
            return Entry(decoded, None)
        return Entry(decoded, _decoded(self._values, stored.value, is_tagged=True), expires_at=stored.expires_at)

    def columns(self, keys: Sequence[bytes], values: Sequence[bytes]) -> tuple[list[Any], list[Any]]:
        """Decode entries without applying `upcast`. Raises `SerializationError`; see `entry`, which says more."""
        if isinstance(self._keys, str) or isinstance(self._values, str):
            raise SerializationError("; ".join(self.notes))
        return self._keys.decode_many(keys), self._values.decode_many(untagged_many(values))

    def key_bytes(self, key: Any) -> bytes:
        """Encode a key. Raises `StateError` if the codec is unknown, `UnsupportedValue` if it cannot be a key."""
        if isinstance(self._keys, str):
            raise StateError(
                f"{self._namespace}: {self._keys}. Give the stored key in hexadecimal digits, with --hex.",
                namespace=self._namespace,
            )
        encoding = EntryEncoding(self._namespace, self._keys, MsgpackCodec())
        return encoding.key_bytes([encoding.cache_key(key)])[0]


def key_codec(namespace: str, header: str, configured: Codecs) -> Codec:
    """Return the codec of a namespace's keys. Raises `StateError` if no known codec has the name in the header."""
    match = _HEADER.fullmatch(header)
    codec = _codec(match[1], configured.keys, "key") if match else f"it has the unknown format header {header!r}"
    if isinstance(codec, str):
        raise StateError(f"{namespace}: {codec}. Give --conf with the file of the runs.", namespace=namespace)
    return codec


def stored_codecs(namespace: str, header: str, configured: Codecs) -> Codecs:
    """Return the codecs in a format header. Raises `StateError` if no known codec has one of the names."""
    keys, match = key_codec(namespace, header, configured), _HEADER.fullmatch(header)
    values = _codec(match[2] if match else "", configured.values, "value")
    if isinstance(values, str):
        raise StateError(f"{namespace}: {values}. Give --conf with the file of the runs.", namespace=namespace)
    return Codecs(keys, values)


@dataclass(frozen=True)
class NamespaceSummary:
    namespace: str
    committed: int = NOTHING_COMMITTED
    winner: str = ""
    codec: str = ""  # the format header; empty until something is written
    attempts: int = 0  # number of staged attempts
    keys: int | None = None  # number of committed entries; None if they were not counted
    size: int | None = None  # bytes; None if they were not measured
    problem: str = ""  # why the metadata cannot be read; empty if it can


def namespace_summaries(
    provider: StateProvider,
    prefix: str = "",
    *,
    count: bool = False,
    measure: bool = False,
    progress: Progress | None = None,
) -> Iterator[NamespaceSummary]:
    """Yield the namespaces that start with `prefix`, sorted by name.

    With `count`, read all entries to count them and their bytes. With `measure`, ask the store for the numbers; HBase
    does not know them.
    """
    for namespace in sorted(provider.namespaces(prefix)):
        with closing(provider.open(namespace)) as storage:
            try:
                head = storage.head()
                keys, size = (storage.count(), storage.size()) if measure else (None, None)
                if count:
                    keys, counted_bytes = measured(storage, progress)
                    size = counted_bytes if size is None else size
            except (StateCorrupted, StateRegressed) as error:
                yield NamespaceSummary(namespace, problem=error.message)
                continue
            yield NamespaceSummary(namespace, head.committed, head.winner, head.codec, len(head.attempts), keys, size)


def component_namespaces(provider: StateProvider, topology: str, prefix: str, component: str) -> list[str]:
    """Return the namespaces of a stateful bolt's tasks. Raises `StateError` if the store has no such bolt."""
    with closing(provider.open(record_namespace(prefix))) as storage:
        record, _ = DecisionLog(storage).load()
    known = {} if record is None else record.parallelism
    if component not in known:
        what = f"the stateful bolts {', '.join(known)}" if known else "no state of this topology"
        raise StateError(
            f"there is no stateful bolt {component!r} of topology {topology!r} in {provider.describe()}, which has "
            f"{what}.{did_you_mean(component, known)}",
            namespace=record_namespace(prefix),
        )
    return [task_namespace(prefix, component, index) for index in range(known[component])]


def get_entries(
    provider: StateProvider,
    namespaces: Sequence[str],
    keys: Sequence[str],
    codecs: Codecs,
    *,
    hexadecimal: bool = False,
) -> tuple[list[str], list[tuple[str, Entry]]]:
    """Return notes on decoding problems, and namespace and committed entry of each key, in the order of the keys.

    `namespaces` has one namespace, or the namespaces of all tasks of a bolt: each key is looked up in the task to which
    fields grouping sends it, and if it is absent there, in the other tasks. `keys` are texts as for `key_from_text`;
    with `hexadecimal`, the hexadecimal digits of stored keys. Raises `StateError` if a namespace does not exist, or no
    known codec can encode its keys.
    """
    count = len(namespaces)
    has_hash = count > 1 and not hexadecimal
    first = [destination_of(stable_hash(key_from_text(key)), count) if has_hash else 0 for key in keys]
    found: dict[int, tuple[str, Entry]] = {}
    notes: dict[str, None] = {}
    for step in range(count):
        absent = [place for place in range(len(keys)) if place not in found or found[place][1].value is None]
        for task in sorted({(first[place] + step) % count for place in absent}):
            places = [place for place in absent if (first[place] + step) % count == task]
            with closing(provider.open(namespaces[task])) as storage:
                decoder = EntryDecoder(storage.namespace, existing_head(provider, storage).codec, codecs)
                texts = [keys[place] for place in places]
                data = [_from_hex(text) if hexadecimal else decoder.key_bytes(key_from_text(text)) for text in texts]
                for place, key, value in zip(places, data, storage.get_many(data), strict=True):
                    found[place] = namespaces[task], decoder.entry(key, live_entry(key, value, _now()))
            notes.update(dict.fromkeys(decoder.notes))
    return list(notes), [found[place] for place in range(len(keys))]


@contextmanager
def scan_entries(
    provider: StateProvider, namespace: str, codecs: Codecs, *, attempt: str | None = None
) -> Iterator[tuple[tuple[str, ...], Iterator[list[Entry]]]]:
    """Yield notes on decoding problems, and all entries of a namespace in pages.

    With `attempt`, read as if this staged attempt were committed. Raises `StateError` if the namespace or the attempt
    does not exist.
    """
    with closing(provider.open(namespace)) as storage:
        head = existing_head(provider, storage)
        if attempt is not None and attempt not in head.attempts:
            staged = ", ".join(sorted(head.attempts)) or "none"
            raise StateError(f"{namespace} has no staged attempt {attempt!r}; staged: {staged}.", namespace=namespace)
        decoder = EntryDecoder(namespace, head.codec, codecs)
        pages = storage.scan(attempt)
        yield decoder.notes, ([decoder.entry(entry.key, entry) for entry in live(page, _now())] for page in pages)


def is_stored_namespace(provider: StateProvider, name: str) -> bool:
    if not is_namespace(name):
        return False
    with closing(provider.open(name)) as storage:
        return storage.head() != NamespaceHead()


def existing_head(provider: StateProvider, storage: StateStorage) -> NamespaceHead:
    """Return the head of a namespace. If it does not exist, raise `StateError` with the names of similar ones."""
    head = storage.head()
    if head != NamespaceHead():
        return head
    names = list(islice(provider.namespaces(), _NAMES_COMPARED))
    nearest = get_close_matches(storage.namespace, names, n=3, cutoff=0.5) or sorted(names)[:3]
    hint = f"Similar names: {', '.join(nearest)}" if nearest else "The store has no namespaces"
    raise StateError(
        f"there is no namespace {storage.namespace!r} in {provider.describe()}. {hint}. List them: anchorbolt state "
        "namespaces.",
        namespace=storage.namespace,
    )


def measured(storage: StateStorage, progress: Progress | None = None) -> tuple[int, int]:
    """Count the committed entries of a namespace that have not expired, and the bytes of all that is stored for them.

    The namespace is read page by page.
    """
    progress = progress or Progress()
    progress.begin(f"counting {storage.namespace}", storage.count())
    keys = size = 0
    for page in storage.scan():
        keys += sum(1 for _ in live(page, _now()))
        size += sum(len(key) + len(value) for key, value in page)
        progress.advance(len(page))
    return keys, size


def _now() -> int:
    return int(time.time() * 1000)


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not hexadecimal: two digits a byte, as in 'a56170706c65'.") from None


def _codec(named: str, configured: Codec, what: str) -> Codec | str:
    """Return the codec of a name, or the reason why none is known."""
    ours = (MsgpackKeyCodec(), MsgpackCodec(), JsonKeyCodec(), JsonCodec(), RootCodec(), OpenTreeCodec())
    for codec in (configured, *ours):
        if named == codec.header:
            return codec
    if named.startswith("pickle/"):
        return (
            "its values are pickles, which can run code: they are shown as bytes, unless the given configuration sets "
            "valueSerializerClass to pickle"
        )
    return (
        f"its {what}s were written by {named!r}, but {what}SerializerClass in the given configuration is "
        f"{configured.header!r}"
    )


def _decoded(codec: Codec | str, data: bytes, *, is_tagged: bool) -> Decoded:
    version, encoded = FIRST_VERSION, data
    try:
        if is_tagged:
            version, encoded = untagged(data)
        if isinstance(codec, str):
            return Decoded(data, problem=codec, version=version)
        return Decoded(data, codec.decode(encoded), version=version)
    except SerializationError as error:
        return Decoded(data, problem=str(error), version=version)
