"""Copies one namespace: stages it in slices, seals, commits and compares. Memory is bounded by a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from anchorbolt.errors import MigrationRefused, SerializationError
from anchorbolt.maintenance.attempt_writer import AttemptWriter, Page, slices_of
from anchorbolt.migration_tools import Progress
from anchorbolt.serialization.codecs import Codec, JsonKeyCodec, MsgpackKeyCodec
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider, StateStorage
from anchorbolt.state_backends.encoding import older_header
from anchorbolt.util.messages import shortened

_SLICE_ENTRIES = 1000
_HASH_BYTES = 16

_CODECS: dict[str, Codec] = {
    older_header(f"keys {codec.header}, "): codec for codec in (MsgpackKeyCodec(), JsonKeyCodec())
}


@dataclass(frozen=True)
class Digest:
    """The count and checksum of entries, which do not depend on the order of the entries."""

    entries: int = 0
    total: int = 0  # sum of the entries' 128-bit hashes modulo 2**128; with XOR, equal entries would cancel out
    size: int = 0  # bytes of all keys and values

    def plus(self, page: Iterable[tuple[bytes, bytes]]) -> Digest:
        """Return the digest with these entries added."""
        entries, total, size = self.entries, self.total, self.size
        for key, value in page:
            hashed = blake2b(len(key).to_bytes(8, "big"), digest_size=_HASH_BYTES)
            hashed.update(key)
            hashed.update(value)
            total += int.from_bytes(hashed.digest(), "big")
            entries += 1
            size += len(key) + len(value)
        return Digest(entries, total % (1 << 8 * _HASH_BYTES), size)

    @property
    def checksum(self) -> str:
        return f"{self.total:032x}"


@dataclass(frozen=True)
class CopiedNamespace:
    """The result for one namespace. All values are the same on both sides."""

    namespace: str
    committed: int
    winner: str
    entries: int | None = None  # number of entries; None after a dry run
    size: int | None = None  # bytes of all keys and values
    checksum: str = ""
    was_there: bool = False  # whether an earlier copy had finished this namespace; it was compared again


def claimed(storage: StateStorage, generation: int, seq: int = 0) -> Fence:
    """Claim a new generation that is not below `generation`."""
    if storage.head().fence.generation < generation - 1:
        storage.raise_fence(Fence(generation - 1, seq))
    return storage.claim(seq)


def copied_namespace(
    source: StateProvider,
    target: StateProvider,
    namespace: str,
    head: NamespaceHead,
    found: NamespaceHead,
    fence: Fence,
    progress: Progress,
) -> CopiedNamespace:
    """Copy one namespace, unless an earlier copy has finished it, and compare both sides.

    `head` is the head at the source, `found` the head at the target after the fence was raised. Raises
    `MigrationRefused` if the source changed, an entry is too large, an older namespace has one key under two
    spellings, or both sides are not equal.
    """
    keys = rewriting(namespace, head.codec)
    was_there = found.committed == head.committed
    attempt = found.attempts.get(head.winner)
    with closing(source.open(namespace)) as reader, closing(target.open(namespace)) as writer:
        progress.begin(f"{'reading' if was_there else 'copying'} {namespace}", reader.count())
        if was_there or (attempt is not None and attempt.seal is not None):
            digest = _digest(keys.pages(reader, _SLICE_ENTRIES, None, head.winner), progress)
        else:
            writer.rollback(fence)
            digest = Digest()
            copied = AttemptWriter(writer, fence, head.committed, found.committed, keys.header, head.winner)
            pages = keys.pages(reader, _SLICE_ENTRIES, writer, head.winner)
            for entries in slices_of(namespace, pages, writer.limits):
                copied.stage(dict(entries))
                digest = digest.plus(entries)
                progress.advance(len(entries))
            copied.sealed()
        if reader.head() != head:
            raise moved(source, target, namespace)
        if not was_there:
            writer.commit(fence, head.committed, head.winner)
        progress.begin(f"comparing {namespace}", digest.entries)
        written = _digest(writer.scan(page_size=_SLICE_ENTRIES), progress)
        at = writer.head()
    if (written, at.committed, at.winner) != (digest, head.committed, head.winner):
        raise MigrationRefused(
            f"{namespace} is not equal: {source.describe()} has {digest.entries:,} entries with checksum "
            f"{digest.checksum}, {target.describe()} has {written.entries:,} with {written.checksum}. No decision "
            f"record was written, so that no run can start there. Delete {namespace} at the target, and copy again."
        )
    return CopiedNamespace(
        namespace, head.committed, head.winner, digest.entries, digest.size, digest.checksum, was_there
    )


def _digest(pages: Iterable[Page], progress: Progress) -> Digest:
    digest = Digest()
    for page in pages:
        digest = digest.plus(page)
        progress.advance(len(page))
    return digest


def moved(source: StateProvider, target: StateProvider, what: str) -> MigrationRefused:
    """Return the error for a source that changed during the copy."""
    return MigrationRefused(
        f"a run wrote to {what} in {source.describe()} during the copy. No decision record was written to "
        f"{target.describe()}, so that no run can start there. Stop the run, delete the copied namespaces, and copy "
        "again."
    )


class Rewriting(NamedTuple):
    """How the keys of one namespace are copied: see docs/decisions/equal-keys.md on keys of older namespaces."""

    namespace: str
    header: str  # of the copy
    codec: Codec | None  # None if the keys stay as they are

    def pages(self, reader: StateStorage, page_size: int, written: StateStorage | None, attempt: str) -> Iterator[Page]:
        """Yield the entries in the form of the copy.

        With `written`, the namespace with the staged part of the copy, raise `MigrationRefused` for a key that was
        stored under two spellings.
        """
        for page in reader.scan(page_size=page_size):
            keys = [self._rewritten(key) for key, _ in page]
            changed = {new: old for new, (old, _) in zip(keys, page, strict=True) if new != old}
            if written is not None and changed:
                self._check_single(keys, changed, reader, written, attempt)
            yield list(zip(keys, (value for _, value in page), strict=True))

    def _rewritten(self, key: bytes) -> bytes:
        if self.codec is None:
            return key
        try:
            return self.codec.encode(self.codec.decode(key))
        except SerializationError as error:
            raise MigrationRefused(f"{self.namespace}: a key cannot be rewritten: {error.message}") from error

    def _check_single(
        self, keys: list[bytes], changed: dict[bytes, bytes], reader: StateStorage, written: StateStorage, attempt: str
    ) -> None:
        assert self.codec is not None, "keys change only where a codec rewrites them"
        rewritten = list(changed)
        twins = zip(rewritten, reader.get_many(rewritten), written.get_many(rewritten, attempt), strict=True)
        stored_twice = [key for key, *values in twins if values != [None, None] or keys.count(key) > 1]
        for key in stored_twice:
            raise MigrationRefused(
                f"{self.namespace}: the key {shortened(self.codec.decode(key))} is stored under several spellings, one "
                f"of which is {shortened(self.codec.decode(changed[key]))}. Nothing is committed at the target. Put "
                "their values together under one of them, with the version of Anchorbolt that wrote them, and copy "
                "again."
            )


def rewriting(namespace: str, header: str) -> Rewriting:
    """Return how the keys of a namespace with this format header are copied."""
    for older, codec in _CODECS.items():
        if header.startswith(older):
            return Rewriting(namespace, header.replace(older, f"keys {codec.header}, ", 1), codec)
    return Rewriting(namespace, header, None)
