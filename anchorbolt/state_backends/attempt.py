"""A task's access to its namespace: reads, stages slices and seals, and checks the state of the store. Bytes only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TypeVar

from anchorbolt.errors import CodecMismatch, StaleAttempt, StateError
from anchorbolt.faults.points import FaultPoint, reach
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.state_backends.contract import (
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedSlice,
    StateStorage,
    regressed,
    shown_position,
)
from anchorbolt.state_backends.encoding import older_header, older_keys
from anchorbolt.state_backends.rules import check_write
from anchorbolt.state_backends.state import AttemptScope

SLICE_UPDATES = 2048  # in a namespace of ten million keys, Redis applies twice as many in 26 ms
_SLICE_BYTES = 4 << 20

_Slice = tuple[Sequence[bytes], "Sequence[bytes | None]", int]
Page = list[tuple[bytes, bytes]]
T = TypeVar("T")


@dataclass
class StateCounters:
    """Counts of one wave."""

    keys_read: int = 0  # from the store, not from the cache
    keys_cached: int = 0  # keys to prefetch that were already in the cache
    keys_staged: int = 0  # including deletes
    bytes_staged: int = 0  # keys and values
    store_ms: dict[str, Distribution] = field(default_factory=dict)  # by operation: the time of each call

    def note(self, operation: str, started: float) -> None:
        """Count a call of the store that has just ended or failed. It began at `started`, a `perf_counter`.

        Not a context manager, which would cost three times as much: there is such a call for each blob.
        """
        times = self.store_ms.get(operation)
        if times is None:
            times = self.store_ms[operation] = Distribution()
        times.add((perf_counter() - started) * 1000)

    @property
    def read_ms(self) -> float:
        """The time of all reads, in ms."""
        return self.total_ms("read") + self.total_ms("scan")

    def total_ms(self, operation: str) -> float:
        """Return the time of all calls of an operation."""
        times = self.store_ms.get(operation)
        return 0.0 if times is None else times.total


class TaskNamespace:
    """A task's access to its namespace, for one attempt after another."""

    def __init__(self, storage: StateStorage, codec: str) -> None:
        self._storage = storage
        self._codec = codec
        # A store that accepts only small values may accept only small requests.
        self._slice_bytes = min(_SLICE_BYTES, storage.limits.value) if storage.limits else _SLICE_BYTES
        self._scope: AttemptScope | None = None
        self._is_checked = False
        self._reads_unchecked = False
        self._committed: ReadPosition | None = None  # set once this attempt is committed
        self._staged: Seal | None = None  # of all staged slices: the last result of `stage`
        self.seal: Seal | None = None  # None before `seal_staged`, and if nothing was staged
        # Whether the namespace was written before keys had a canonical form; None until its head is read.
        self.is_older: bool | None = None if older_header(codec) != codec else False
        self.counters = StateCounters()

    @property
    def scope(self) -> AttemptScope:
        """The scope of the wave; raises `StateError` outside a wave."""
        if self._scope is None:
            raise StateError(
                f"state {self._storage.namespace!r} is used outside a wave. Read and write it in "
                "init_state, execute and the hooks; not on threads of your own, and not after the run.",
                namespace=self._storage.namespace,
            )
        return self._scope

    @property
    def is_unsealed(self) -> bool:
        """Whether something was staged that is not sealed."""
        return self._staged is not None and self.seal is None

    def begin(self, scope: AttemptScope) -> None:
        """Start a wave. Reads and writes nothing."""
        self._scope = scope
        self._is_checked = self._reads_unchecked = False
        self._staged = self.seal = self._committed = None
        self.counters = StateCounters()

    def stop_checking_reads(self) -> None:
        """Stop checking reads against the head: the wave has ended for this attempt, and reads change no state now."""
        self._reads_unchecked = True

    def check_head(self) -> None:
        """Check once a wave, before the first read, that the namespace is in the state that the driver expects.

        Raises `Fenced`, `StateRegressed` or `CodecMismatch`.
        """
        if not self._is_checked and not self._reads_unchecked:
            self._compare_head()
            self._is_checked = True

    def _compare_head(self) -> None:
        scope, head = self.scope, self._storage.head()
        if self.seal is not None and (head.committed, head.winner) == (scope.txid, scope.attempt):
            self._committed = ReadPosition(scope.txid, scope.attempt)  # the driver has committed it, and a hook reads
            return
        self._adopt_header(head)
        check_write(self._storage.namespace, head, scope.fence, self._codec)
        self._refuse_regressed(head)

    def _adopt_header(self, head: NamespaceHead) -> None:
        """Continue an older namespace under its own header: its keys are stored as before."""
        if self.is_older is None:
            older = older_header(self._codec)
            self.is_older = head.codec == older
            if self.is_older:
                self._codec = older

    def refuse_older(self) -> None:
        """Raise `CodecMismatch` if a key that may have several spellings is used in an older namespace."""
        if self.is_older is None:
            self._adopt_header(self._storage.head())
        if self.is_older:
            raise older_keys(self._storage.namespace)

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of `keys` in their order; updates of this attempt replace committed values.

        Raises the errors of `check_head`, and `StaleAttempt` if the namespace was in another state during the read: the
        values may be old.
        """
        self.check_head()
        started = perf_counter()
        try:
            stored = self._read(lambda attempt, at: self._storage.get_many(keys, attempt, at))
        finally:
            self.counters.note("read", started)
        self.counters.keys_read += len(keys)
        return stored

    def scan(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield all entries in pages; updates of this attempt replace committed values. Raises the errors of `read`.

        Raises `StateError` if another wave has begun meanwhile.
        """
        self.check_head()
        scope = self.scope

        def begun(attempt: str | None, at: ReadPosition | None) -> tuple[Page | None, Iterator[Page]]:
            pages = self._storage.scan(attempt, at=at)
            started = perf_counter()
            try:
                return next(pages, None), pages
            finally:
                self.counters.note("scan", started)

        page, pages = self._read(begun)
        while page is not None:
            yield page
            if self._scope is not scope:
                raise StateError(
                    f"state {self._storage.namespace!r}: this iterator was made in another wave. Make a new one in "
                    "each wave: a wave that is tried again must not continue an iterator of the failed round.",
                    namespace=self._storage.namespace,
                )
            started = perf_counter()
            try:
                page = next(pages, None)
            except StaleAttempt:
                self._compare_head()
                raise
            finally:
                self.counters.note("scan", started)

    def stage(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Stage updates in slices of some MiB; an update of a key replaces an update staged by an earlier call.

        The keys are distinct. The value None deletes its key.
        """
        for some_keys, some_values, size in _slices(keys, values, self._slice_bytes):
            self._stage_slice(dict(zip(some_keys, some_values, strict=True)))
            self.counters.keys_staged += len(some_keys)
            self.counters.bytes_staged += size
        self.seal = None

    def stage_nothing(self) -> None:
        """Start the attempt without an update, so that it can be sealed."""
        if self._staged is None:
            self._stage_slice({})

    def seal_staged(self, txid: int) -> None:
        """Seal the attempt; write nothing if nothing was staged."""
        scope = self.scope
        if txid != scope.txid:
            raise StaleAttempt(
                f"state {self._storage.namespace!r}: asked to prepare txid {txid} in the wave of txid "
                f"{scope.txid}. This is a fault of Anchorbolt; please report it.",
                namespace=self._storage.namespace,
            )
        if self._staged is not None and self.seal is None:
            reach(FaultPoint.STAGED)
            started = perf_counter()
            try:
                self._storage.seal(scope.fence, scope.attempt, self._staged)
            finally:
                self.counters.note("seal", started)
            self.seal = self._staged
            reach(FaultPoint.SEALED)

    def commit(self, txid: int) -> None:
        """Commit the sealed attempt; write nothing if nothing was sealed."""
        if self.seal is not None:
            self._storage.commit(self.scope.fence, txid, self.scope.attempt)
            self._committed = ReadPosition(txid, self.scope.attempt)

    def roll_back(self) -> None:
        """Drop the staged updates, also in the store."""
        if self._staged is not None:
            self._storage.rollback(self.scope.fence)
        self._staged = self.seal = None

    def close(self) -> None:
        self._storage.close()

    def _read(self, read: Callable[[str | None, ReadPosition | None], T]) -> T:
        """Read under this attempt; read again if the driver has committed the attempt meanwhile."""
        try:
            return read(*self._read_position())
        except StaleAttempt:
            self._compare_head()
            if self._committed is None:
                raise
            return read(*self._read_position())

    def _read_position(self) -> tuple[str | None, ReadPosition | None]:
        """Return the attempt whose updates a read sees, and the state that the read expects, if it is checked."""
        scope = self.scope
        attempt = scope.attempt if self._staged is not None and self._committed is None else None
        at = self._committed or ReadPosition(scope.committed, scope.winner, self._staged)
        return attempt, None if self._reads_unchecked else at

    def _stage_slice(self, updates: Mapping[bytes, bytes | None]) -> None:
        scope = self.scope
        number = self._staged.slices if self._staged is not None else 0
        staged = StagedSlice(scope.fence, scope.txid, scope.attempt, scope.committed, number, updates, self._codec)
        started = perf_counter()
        try:
            self._staged = self._storage.stage(staged)
        except StaleAttempt:
            self._refuse_regressed(self._storage.head())
            raise
        except CodecMismatch:
            if self.is_older is not None:
                raise
            self._adopt_header(self._storage.head())
            self._staged = self._storage.stage(replace(staged, codec=self._codec))
        finally:
            self.counters.note("stage", started)
        if scope.keep is not None:
            scope.keep(staged)
        reach(FaultPoint.SLICE_STAGED)

    def _refuse_regressed(self, head: NamespaceHead) -> None:
        position = self._committed or ReadPosition(self.scope.committed, self.scope.winner)
        if (head.committed, head.winner) != position[:2] and head.fence <= self.scope.fence:
            expected = shown_position(position.committed, position.winner)
            raise regressed(self._storage.namespace, expected, shown_position(head.committed, head.winner))


class AttemptView:
    """The part of a task's state that its wrapper uses; the base of both kinds of state in a task."""

    _attempt: TaskNamespace

    @property
    def counters(self) -> StateCounters:
        """The counts of this wave; for a custom state, only the calls on its namespace."""
        return self._attempt.counters

    @property
    def seal(self) -> Seal | None:
        """The seal that `prepare_commit` set in this wave; None before, and without an update."""
        return self._attempt.seal

    @property
    def base(self) -> int:
        """The committed txid that this wave's updates are based on."""
        return self._attempt.scope.committed


def _slices(keys: Sequence[bytes], values: Sequence[bytes | None], most_bytes: int) -> Iterator[_Slice]:
    """Yield updates, and their bytes, in slices of at most `most_bytes`. One larger update is a slice by itself."""
    for start in range(0, len(keys), SLICE_UPDATES):
        end = start + SLICE_UPDATES
        yield from _halved(keys[start:end], values[start:end], most_bytes)


def _halved(keys: Sequence[bytes], values: Sequence[bytes | None], most_bytes: int) -> Iterator[_Slice]:
    size = _bytes_of(keys) + _bytes_of(list(filter(None, values)))
    if size <= most_bytes or len(keys) == 1:
        yield keys, values, size
    else:
        middle = len(keys) // 2
        yield from _halved(keys[:middle], values[:middle], most_bytes)
        yield from _halved(keys[middle:], values[middle:], most_bytes)


def _bytes_of(parts: Sequence[bytes]) -> int:
    # `join` copies the parts, but is three times as fast as the sum of their lengths. Few parts, because of large ones.
    return sum(len(b"".join(parts[start : start + 256])) for start in range(0, len(parts), 256))
