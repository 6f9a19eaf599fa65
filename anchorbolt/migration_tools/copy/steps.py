"""The copy of one namespace: staged in slices, sealed, committed, and compared. Memory is bounded by a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools.copy.digest import Digest
from anchorbolt.migration_tools.progress import Progress
from anchorbolt.state_backends.contract import (
    Fence,
    NamespaceHead,
    SizeLimits,
    StagedSlice,
    StateProvider,
    StateStorage,
)

_SLICE_BYTES = 4 << 20
_SLICE_ENTRIES = 1000


@dataclass(frozen=True)
class CopiedNamespace:
    """What became of one namespace.

    Attributes:
        namespace: Its name.
        committed: Its committed txid, on both sides.
        winner: The attempt which that came from, on both sides.
        entries: How many entries it holds; None where they were not counted (a dry run).
        size: Bytes of their keys and values.
        checksum: Their checksum, which source and target agree in.
        was_there: Whether an earlier copy had finished it; it was compared all the same.
    """

    namespace: str
    committed: int
    winner: str
    entries: int | None = None
    size: int | None = None
    checksum: str = ""
    was_there: bool = False


def claimed(storage: StateStorage, generation: int) -> Fence:
    """Claim a generation that is not below `generation` and that nobody else has."""
    if storage.head().fence.generation < generation - 1:
        storage.raise_fence(Fence(generation - 1, 0))
    return storage.claim()


def raised(target: StateProvider, namespace: str, fence: Fence) -> NamespaceHead:
    """Raise the fence of a namespace, and return where it stands."""
    with closing(target.open(namespace)) as storage:
        return storage.raise_fence(fence)


def copied_namespace(
    source: StateProvider,
    target: StateProvider,
    namespace: str,
    head: NamespaceHead,
    found: NamespaceHead,
    fence: Fence,
    progress: Progress,
) -> CopiedNamespace:
    """Copy one namespace as far as it is not there, and compare both sides.

    Args:
        source: Where from.
        target: Where to.
        namespace: Its name.
        head: Where it stands at the source.
        found: Where it stood at the target, after the fence was raised.
        fence: The copy's fence.
        progress: Told of each page.

    Raises:
        MigrationRefused: The source moved, an entry is too large, or both sides are not equal.
    """
    was_there = found.committed == head.committed
    with closing(source.open(namespace)) as reader, closing(target.open(namespace)) as writer:
        total = reader.count()
        progress.begin(f"{'reading' if was_there else 'copying'} {namespace}", total)
        if was_there:
            digest = _digest(reader, progress)
        else:
            digest = _staged(reader, writer, head, found, fence, progress)
        if reader.head() != head:
            raise moved(source, target, namespace)
        if not was_there:
            writer.commit(fence, head.committed, head.winner)
        progress.begin(f"comparing {namespace}", digest.entries)
        written = _digest(writer, progress)
        at = writer.head()
    if (written, at.committed, at.winner) != (digest, head.committed, head.winner):
        raise MigrationRefused(
            f"{namespace} is not equal: {source.describe()} holds {digest.entries:,} entries with checksum "
            f"{digest.checksum}, {target.describe()} {written.entries:,} with {written.checksum}. No decision record "
            f"was written, so that no run can start there. Delete {namespace} at the target, and copy again."
        )
    return CopiedNamespace(
        namespace, head.committed, head.winner, digest.entries, digest.size, digest.checksum, was_there
    )


def _staged(
    reader: StateStorage,
    writer: StateStorage,
    head: NamespaceHead,
    found: NamespaceHead,
    fence: Fence,
    progress: Progress,
) -> Digest:
    """Stage and seal what the source holds; return its digest. What an earlier copy sealed is taken as it is."""
    staged = found.attempts.get(head.winner)
    if staged is not None and staged.seal is not None:
        return _digest(reader, progress)
    writer.rollback(fence)
    digest, seal = Digest(), None
    for number, part in enumerate(_slices(reader, writer.limits)):
        seal = writer.stage(
            StagedSlice(fence, head.committed, head.winner, found.committed, number, dict(part), head.codec)
        )
        digest = digest.plus(part)
        progress.advance(len(part))
    if seal is None:
        seal = writer.stage(
            StagedSlice(fence, head.committed, head.winner, found.committed, 0, {}, head.codec)
        )
    writer.seal(fence, head.winner, seal)
    return digest


def _slices(reader: StateStorage, limits: SizeLimits | None) -> Iterator[list[tuple[bytes, bytes]]]:
    for page in reader.scan(page_size=_SLICE_ENTRIES):
        part: list[tuple[bytes, bytes]] = []
        size = 0
        for key, value in page:
            if limits is not None and (len(key) > limits.key or len(value) > limits.value):
                raise MigrationRefused(
                    f"{reader.namespace}: an entry has a key of {len(key):,} and a value of {len(value):,} bytes; the "
                    f"target takes {limits.key:,} and {limits.value:,}. {limits.advice}. Nothing is committed there."
                )
            if part and size + len(key) + len(value) > _SLICE_BYTES:
                yield part
                part, size = [], 0
            part.append((key, value))
            size += len(key) + len(value)
        if part:
            yield part


def _digest(storage: StateStorage, progress: Progress) -> Digest:
    digest = Digest()
    for page in storage.scan(page_size=_SLICE_ENTRIES):
        digest = digest.plus(page)
        progress.advance(len(page))
    return digest


def moved(source: StateProvider, target: StateProvider, what: str) -> MigrationRefused:
    """Return the error for a source that was written to meanwhile."""
    return MigrationRefused(
        f"{what} was written to in {source.describe()} while it was copied: a run is alive. No decision record was "
        f"written to {target.describe()}, so that no run can start there. Stop the run, delete what was copied, and "
        "copy again."
    )
