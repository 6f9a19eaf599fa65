"""The invariants of the protocol, checked after every step that changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anchorbolt.bolts.parquet_folder import COLUMNS
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import STATE_KEY
from anchorbolt.checkpoint.ports import Round
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, Fence, Seal
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.memory import _Namespace
from tests.simulation.timed_invariants import TimedInvariants
from tests.simulation.topology import NAME, OUT, SIZE, Expected
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.reliability import Reliability
    from tests.simulation.world import World

CHECKPOINT_NAMESPACE = f"{NAME}:$checkpointspout-0"

_CODEC = MsgpackCodec()
_ENCODING = EntryEncoding("simulated", _CODEC, _CODEC)
[_STATE_KEY] = _ENCODING.key_bytes([STATE_KEY])


class Invariants:
    """What must hold in a world.

    Once the store went back in time, what a driver that is at work writes there may contradict the rest of it for a
    while; then it is the outcome that counts: the run halts with `StateRegressed`, or everything is as it should be.
    """

    def __init__(self, world: World, expected: Expected, reliability: Reliability | None) -> None:
        self._world = world
        self._expected = expected
        self._reliability = reliability  # None without rich spouts
        self._decided: dict[int, DecisionRecord] = {}
        self._batches: dict[int, int] = {}  # by transaction: the last batch of the stream spout up to it
        self._parsed: dict[str, tuple[bytes, list[tuple[str, int, int]]]] = {}
        self._is_batch_a_wave = reliability is None and not world.scenario.is_timed
        self._timed = TimedInvariants(world, NAME) if world.scenario.is_timed else None

    def before(self, namespace: str, fence: Fence | None) -> _Namespace:
        """Note what has to be known of a namespace before a call: its entries, if they must not change."""
        store = self._store(namespace)
        entries = dict(store.entries) if _is_lower(fence, store) else {}
        return _Namespace(store.metadata, entries, dict(store.records))

    def after(self, namespace: str, call: str, fence: Fence | None, before: _Namespace, *, refused: bool) -> None:
        """Check a namespace after a call, whatever came of it."""
        store = self._store(namespace)
        parts = ("metadata", "records", "entries")
        if _is_lower(fence, before) and any(getattr(store, part) != getattr(before, part) for part in parts):
            raise Violation(f"a lower fence had an effect: {call} on {namespace}")
        if store.metadata.fence < before.metadata.fence:
            raise Violation(f"the fence of {namespace} was lowered by {call}")
        if (store.metadata.committed, store.metadata.winner) != (before.metadata.committed, before.metadata.winner):
            self._committed(namespace, store, before)
        if namespace == CHECKPOINT_NAMESPACE and call == "write" and not refused:
            self._recorded()

    def begun(self, current: Round) -> None:
        """Check the clock of a round."""
        if self._timed is not None:
            try:
                self._timed.begun(current)
            except Violation as violation:
                self._world.break_off(violation)

    def acknowledged(self, batch: int) -> None:
        """Check that a batch that the source was told to be done with is committed."""
        record = self.record()
        at = (-1, False) if record is None else (record.batch_id, record.state.phase is Phase.COMMITTED)
        if at < (batch, True) and not self._world.regressed:
            raise Violation(f"batch {batch} was acknowledged before it was COMMITTED: {at}")

    def at_the_end(self) -> None:
        """Check the whole outcome once everything is done and nobody runs any more."""
        last = len(self._expected.words) - 1
        record = self.record()
        if record is None or record.batch_id != last or record.state.phase is not Phase.COMMITTED:
            raise Violation(f"the run has ended, and the record is {record}")
        self._check_committed(record)
        for txid in range(record.txid + 1):
            self._check_rows(txid, None)
        wanted = {_part(txid, task) for txid in range(record.txid + 1) for task in (0, 1)} | {f"{OUT}/{COLUMNS}"}
        foreign = [path for path in self._world.files if path.startswith(OUT) and path not in wanted]
        if foreign:
            raise Violation(f"files that nobody decided were published: {foreign}")
        self.nothing_staged()
        if self._reliability is not None:
            self._reliability.at_the_end(record)
        if self._timed is not None:
            self._timed.at_the_end(record, self._batch_of)

    def nothing_staged(self) -> None:
        """Check that no namespace keeps an attempt of a wave that is over."""
        for namespace, store in self._world.store.contents.items():
            if store.records:
                raise Violation(f"{namespace} keeps leftovers: {store.records}")

    def record(self) -> DecisionRecord | None:
        """Return the decision record that the store holds."""
        data = self._store(CHECKPOINT_NAMESPACE).entries.get(_STATE_KEY)
        return None if data is None else DecisionRecord.decode(data, "the simulated store")

    def _store(self, namespace: str) -> _Namespace:
        return self._world.store.contents.get(namespace) or _Namespace()

    def _committed(self, namespace: str, store: _Namespace, before: _Namespace) -> None:
        txid, attempt = store.metadata.committed, store.metadata.winner
        staged = before.records.get(attempt)
        if staged is None or staged.base != before.metadata.committed:
            raise Violation(f"{namespace} committed txid {txid} over {before.metadata.committed}: {staged}")
        self._check_entries(namespace, store)
        if self._reliability is not None:
            self._reliability.committed(namespace, store)
        record = self.record()
        winner = None if record is None else record.winners.get(namespace)
        recorded = record is not None and record.txid == txid and winner is not None and winner.attempt == attempt
        if not recorded and not self._world.regressed:
            raise Violation(f"{namespace} committed txid {txid} of {attempt}, which is not what was recorded")

    def _recorded(self) -> None:
        record = self.record()
        if record is None:
            raise Violation("the decision record is gone")
        if record.txid >= 0:
            self._check_batch(record)
        if self._world.regressed or record.txid < 0:
            return
        if record.state.phase is Phase.COMMITTED:
            self._check_committed(record)
            return
        decided = self._decided.setdefault(record.txid, record)
        if decided.winners != record.winners:
            raise Violation(f"transaction {record.txid} was decided twice, with different winners")
        for namespace, winner in record.winners.items():
            store = self._store(namespace)
            staged = store.records.get(winner.attempt)
            committable = (
                staged is not None
                and staged.sealed
                and Seal(staged.slices, staged.checksum) == winner.seal
                and staged.base == store.metadata.committed == winner.base
            )
            if not committable and store.metadata.winner != winner.attempt:
                raise Violation(f"txid {record.txid} was decided, and {namespace} cannot commit it: {staged}")

    def _check_batch(self, record: DecisionRecord) -> None:
        """A wave has the next batch of the stream spout; with rich spouts, perhaps none."""
        before = self._batches.get(record.txid - 1, -1)
        possible = [record.txid] if self._is_batch_a_wave else [before, before + 1]
        if self._world.regressed:
            self._batches.pop(record.txid, None)  # another wave may have this number now
        if record.batch_id not in possible or self._batches.setdefault(record.txid, record.batch_id) != record.batch_id:
            raise Violation(f"transaction {record.txid} was recorded for batch {record.batch_id}, after {before}")
        if self._reliability is not None:
            self._reliability.decided(record)
        if self._timed is not None:
            self._timed.decided(record)

    def _last_batch(self, txid: int) -> int:
        return txid if self._is_batch_a_wave else self._batches.get(txid, -1)

    def _batch_of(self, txid: int) -> int | None:
        """Return the batch that a transaction processed."""
        if self._is_batch_a_wave:
            return txid
        batch = self._batches[txid]
        return None if batch == self._batches.get(txid - 1, -1) else batch

    def _check_committed(self, record: DecisionRecord) -> None:
        """COMMITTED: every namespace is where the record says, and holds what it should; rows are published."""
        merged: dict[str, tuple[int, int]] = {}
        for name, at in record.namespaces.items():
            store = self._store(name)
            if (store.metadata.committed, store.metadata.winner) != (at.txid, at.attempt):
                raise Violation(f"txid {record.txid} is COMMITTED, and {name} is at {store.metadata.committed}")
            if "count" in name:
                merged.update(self._check_entries(name, store))
        counts = {word: count for word, (count, _) in merged.items()}
        if counts != self._expected.counts(record.batch_id):
            raise Violation(f"after txid {record.txid} the counts are {counts}")
        if self._reliability is not None:
            self._reliability.wave_committed()
        if self._timed is not None:
            self._timed.committed(record, self._batch_of)
        marks = {word: mark for word, (_, mark) in _decoded(self._store(f"{NAME}:remember-0")).items()}
        if marks.keys() != counts.keys():
            raise Violation(f"after txid {record.txid} the words remembered are {sorted(marks)}")
        batch = self._batch_of(record.txid)
        for word in () if batch is None else self._expected.words[batch]:
            if marks[word] != merged[word][1]:
                raise Violation(f"txid {record.txid}: {word!r} has marks of two attempts of its splitter")
        self._check_rows(record.txid, merged)

    def _check_entries(self, namespace: str, store: _Namespace) -> dict[str, tuple[int, int]]:
        if "count" not in namespace:
            return {}
        entries = _decoded(store)
        words, _ = entries.pop(SIZE, (0, 0))
        if words != len(entries):
            raise Violation(f"{namespace} at txid {store.metadata.committed} has {len(entries)} words, not {words}")
        expected = self._expected.counts(self._last_batch(store.metadata.committed))
        for word, (count, _) in entries.items():
            if count != expected[word]:
                raise Violation(
                    f"{namespace} at txid {store.metadata.committed}: {word!r} is {count}, not {expected[word]}"
                )
        return entries

    def _check_rows(self, txid: int, state: dict[str, tuple[int, int]] | None) -> None:
        rows = [row for task in (0, 1) for row in self._rows_of(_part(txid, task))]
        batch = self._batch_of(txid)
        if sorted((word, count) for word, count, _ in rows) != ([] if batch is None else self._expected.rows(batch)):
            raise Violation(f"the rows of txid {txid} are {rows}")
        for word, count, mark in rows:
            if state is not None and count == state[word][0] and mark != state[word][1]:
                raise Violation(f"txid {txid}: the row of {word!r} is of another attempt than its state")

    def _rows_of(self, path: str) -> list[tuple[str, int, int]]:
        data = self._world.files.get(path)
        if data is None:
            return []
        known, rows = self._parsed.get(path, (None, []))
        if known is not data:
            table = pa.ipc.open_stream(data).read_all().to_pydict()
            rows = list(zip(table["word"], table["count"], table["mark"], strict=True))
            self._parsed[path] = (data, rows)
        return rows


def _decoded(store: _Namespace) -> dict[str, Any]:
    if store.metadata.committed == NOTHING_COMMITTED:
        return {}
    return {_CODEC.decode(key): tuple(_CODEC.decode(value)) for key, value in store.entries.items()}


def _is_lower(fence: Fence | None, store: _Namespace) -> bool:
    return fence is not None and fence < store.metadata.fence


def _part(txid: int, task: int) -> str:
    return f"{OUT}/part-{txid:012d}-out-{task:05d}.parquet"
