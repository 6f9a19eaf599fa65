"""Namespaces of Storm's during a command: their keys in Redis, the connections that watch them, and their copies."""

import contextlib
import re
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing

from anchorbolt.errors import AnchorboltError, StateCorrupted, StateError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.conversion import HashResult, NamespaceResult
from anchorbolt.state_backends.redis.storm_hashes import FieldsAndValues, HashConnection, RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content

STOP_FIRST = "Stop the topology that owns the state, and everything else that writes to it, and run this again"

OURS = "*$*"  # a glob that matches temporary keys of a migration and namespaces of checkpoint spouts
UNDONE_SUFFIX = b"_undone"  # of a changed hash that `undo` keeps
DROPPED = b"$dropped"  # follows the suffix of a temporary hash: a replaced hash that must be deleted

_SUFFIX = re.compile(rb"\$anchorbolt\$migrating\$[0-9a-f]{16}(?:\$dropped)?\Z")
_CHECKPOINT_SPOUT = re.compile(rb"\{?\$checkpointspout-[0-9]+\}?\Z")


def hashes_of(namespace: bytes) -> tuple[bytes, bytes]:
    """Return the names of the two hashes with entries: the prepared ones and the committed ones."""
    return namespace + b"$prepare", namespace


def txid_of(namespace: bytes) -> bytes:
    """Return the name of the hash that holds the transaction ids, as plain text."""
    return namespace + b"$txid"


def backup_of(key: bytes) -> bytes:
    """Return the name of a hash's backup, the same as in Storm's own tool."""
    return key + b"_old"


def new_suffix() -> bytes:
    """Return a suffix for temporary hashes that no other run uses."""
    return b"$anchorbolt$migrating$" + secrets.token_hex(8).encode()


def suffix_of(key: bytes) -> bytes | None:
    """Return the suffix of a temporary hash of any run; None for any other key."""
    found = _SUFFIX.search(key)
    return found[0] if found else None


def checkpoint_spouts_among(keys: Iterable[bytes]) -> list[bytes]:
    """Return the keys that are namespaces of checkpoint spouts, sorted."""
    return sorted({key for key in keys if _CHECKPOINT_SPOUT.match(key)})


class WatchedNamespace(ExitStack):
    """A context manager. Its end closes the connections, which ends the watches, and removes the temporary hashes.

    If one transaction can hold all hashes and backups (`together`), one connection watches all of them. Otherwise each
    key has its own connection. Messages name the first of the namespaces; most commands have only one.

    `content` is the format of the Base64 text; None to recognise it.
    """

    def __init__(
        self,
        hashes: RedisHashes,
        namespaces: Sequence[bytes],
        progress: Progress,
        content: Content | None,
        *,
        dry_run: bool,
    ) -> None:
        super().__init__()
        self.keys = [key for namespace in namespaces for key in hashes_of(namespace)]
        self.together = hashes.together([*self.keys, *map(backup_of, self.keys)])
        self.suffix = new_suffix()
        self.temporary: list[bytes] = []
        self.done: list[str] = []  # the transactions so far: in a cluster each hash may have its own
        self._hashes = hashes
        self._namespaces = namespaces
        self._namespace = namespaces[0]
        self._progress = progress
        self._content = content
        self._dry_run = dry_run
        self._connections: dict[bytes, HashConnection] = {}
        self._watched: set[bytes] = set()
        self.callback(self._clean_up)  # the first callback, so that it runs after the connections are closed

    def types(self) -> Mapping[bytes, str]:
        """Return the types of hashes, backups and transaction ids: `hash` or `none`. Refuse keys of another type."""
        types = self._hashes.types([*self.keys, *map(backup_of, self.keys), *map(txid_of, self._namespaces)])
        for key, kind in types.items():
            if kind not in ("none", "hash"):
                raise self.refusal(
                    f"{shown(key)} in {self._hashes.address} is a {kind}, not a hash as Storm's state is: name a "
                    "namespace of Storm's"
                )
        return types

    def on(self, key: bytes) -> HashConnection:
        """Return the connection that watches a hash or a backup; start to watch the key if necessary."""
        place = self.keys[0] if self.together else key
        if place not in self._connections:
            self._connections[place] = self.enter_context(self._hashes.connection(place))
        if key not in self._watched:
            self._watched.add(key)
            self._connections[place].watch(key)
        return self._connections[place]

    def groups(self, keys: Sequence[bytes]) -> list[list[bytes]]:
        """Return the keys of each transaction."""
        return [list(keys)] if self.together and keys else [[key] for key in keys]

    def check_stay(self, *keys: bytes) -> None:
        for key in keys:
            if self.on(key).expires(key):
                raise self.refusal(
                    f"{shown(key)} expires, which Storm's state never does: to keep it, PERSIST it first"
                )

    def temporary_of(self, key: bytes, more: bytes = b"") -> bytes:
        """Return the name of a temporary hash that can be renamed to `key`."""
        return self._hashes.sibling(key, self.suffix + more)

    def copied(self, key: bytes, other: bytes) -> None:
        """Copy a hash to the temporary hash of `other`."""
        self.fill(other, key, f"copying {shown(key)} to {shown(other)}", lambda page: page)

    def fill(self, other: bytes, key: bytes, step: str, convert: Callable[[FieldsAndValues], FieldsAndValues]) -> int:
        """Convert a hash, write it to the temporary hash of `other` unless this is a dry run, and count the entries.

        Refuse the hash if Redis returns other data than was written.
        """
        source, target = self.on(key), self.temporary_of(other)
        length = source.length(key)
        self._progress.begin(step, length)
        with ExitStack() as stack:
            writer = None
            if not self._dry_run:
                self.temporary.append(target)
                writer = stack.enter_context(self._hashes.connection(target))
            for page in stack.enter_context(closing(source.pages(key))):
                converted = convert(page)
                if writer is not None:
                    # Confirms the page before: the server wrote it while this page was converted.
                    self._confirm(writer, key)
                    writer.write(target, converted)
                self._progress.advance(len(page) // 2)
            if writer is not None:
                self._confirm(writer, key)
                written = writer.length(target)
                if written != length:
                    how = f"had {length:,} entries, and {written:,} were read, or two of its fields decode to the same"
                    raise self.changed(key, how=how)
        return length

    def watch_temporary(self, key: bytes, entries: int, connection: HashConnection) -> None:
        temporary = self.temporary_of(key)
        connection.watch(temporary)
        found = connection.length(temporary)
        if found != entries:
            how = f"has {found:,} entries instead of {entries:,}, because something else wrote at the same time"
            raise self.changed(temporary, how=how)

    def changed(self, *keys: bytes, how: str = "was written to meanwhile") -> StateError:
        before = f", after {' and '.join(self.done)}" if self.done else ""
        return self.refusal(f"{' or '.join(map(shown, keys))} {how}, so it was left as it is{before}. {STOP_FIRST}")

    def refusal(self, message: str) -> StateError:
        return StateError(message, namespace=shown(self._namespace))

    def result(self, results: Iterable[HashResult], error: StateError | None = None) -> NamespaceResult:
        return NamespaceResult(shown(self._namespace), tuple(results), error)

    def _confirm(self, writer: HashConnection, key: bytes) -> None:
        if not writer.confirm():
            raise StateCorrupted(
                f"{self._hashes.address} returned other data than was written for {shown(key)}. Nothing was swapped. "
                "Either two of its fields decode to the same: then remove one of them; or check the server's log and "
                "memory before you run it again",
                namespace=shown(self._namespace),
            )

    def _clean_up(self) -> None:
        """Remove temporary hashes. If Redis cannot be reached, the next run removes them."""
        with contextlib.suppress(AnchorboltError):
            self._hashes.remove(self.temporary)


def pages_of(hashes: RedisHashes, key: bytes, progress: Progress, step: str) -> Generator[FieldsAndValues, None, None]:
    """Yield the pages of a hash; report each after the caller has processed it. Close it if it is not finished."""
    with hashes.connection(key) as reader:
        progress.begin(step, reader.length(key))
        for page in reader.pages(key):
            yield page
            progress.advance(len(page) // 2)
