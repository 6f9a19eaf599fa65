"""Lists the namespaces of a store, and reads some or all entries of a namespace. No fence is raised.

Entries are read in pages, so the size of a namespace does not matter.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice

from anchorbolt.errors import ConfigError, StateCorrupted, StateError, StateRegressed
from anchorbolt.migration_tools.inspect.decoding import Codecs, Entry, EntryDecoder, key_from_text
from anchorbolt.migration_tools.progress import Progress, Silent
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, NamespaceHead, StateProvider, StateStorage

_NAMES_COMPARED = 10_000


@dataclass(frozen=True)
class NamespaceSummary:
    namespace: str
    committed: int = NOTHING_COMMITTED
    winner: str = ""
    codec: str = ""  # the format header; empty until something is written
    attempts: int = 0  # number of staged attempts
    keys: int | None = None  # number of committed entries; None if they were not counted
    problem: str = ""  # why the metadata cannot be read; empty if it can


def namespace_summaries(
    provider: StateProvider, prefix: str = "", *, count: bool = False, progress: Progress | None = None
) -> Iterator[NamespaceSummary]:
    """Yield the namespaces that start with `prefix`, sorted by name; with `count`, count their entries."""
    for namespace in sorted(provider.namespaces(prefix)):
        with closing(provider.open(namespace)) as storage:
            try:
                head = storage.head()
                keys = measured(storage, progress)[0] if count else None
            except (StateCorrupted, StateRegressed) as error:
                yield NamespaceSummary(namespace, problem=error.message)
                continue
            yield NamespaceSummary(namespace, head.committed, head.winner, head.codec, len(head.attempts), keys)


def get_entries(
    provider: StateProvider, namespace: str, keys: Sequence[str], codecs: Codecs, *, hexadecimal: bool = False
) -> tuple[tuple[str, ...], list[Entry]]:
    """Return notes on decoding problems, and the committed values of some keys, in the order of the keys.

    `keys` are texts as for `key_from_text`; with `hexadecimal`, the hexadecimal digits of stored keys. Raises
    `StateError` if the namespace does not exist, or no known codec can encode its keys.
    """
    with closing(provider.open(namespace)) as storage:
        head = existing_head(provider, storage)
        decoder = EntryDecoder(namespace, head.codec, codecs)
        data = [_from_hex(key) if hexadecimal else decoder.key_bytes(key_from_text(key)) for key in keys]
        return decoder.notes, list(map(decoder.entry, data, storage.get_many(data)))


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
        yield decoder.notes, ([decoder.entry(*entry) for entry in page] for page in storage.scan(attempt))


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
    """Count the committed entries of a namespace, and the bytes of their keys and values, page by page."""
    progress = progress or Silent()
    progress.begin(f"counting {storage.namespace}", storage.count())
    keys = size = 0
    for page in storage.scan():
        keys += len(page)
        size += sum(len(key) + len(value) for key, value in page)
        progress.advance(len(page))
    return keys, size


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not hexadecimal: two digits a byte, as in 'a56170706c65'.") from None
