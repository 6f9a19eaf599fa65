"""What the lines have to come to, checked after every step that changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.state_backends.memory import _Namespace
from tests.simulation.invariants import NAME, Invariants, Violation, entries_of
from tests.simulation.lines.topology import OUT, SIZE, Expected

if TYPE_CHECKING:
    from tests.simulation.world import World


class LineInvariants(Invariants):
    """Batch n is transaction n."""

    def __init__(self, world: World, expected: Expected) -> None:
        super().__init__(world)
        self._expected = expected
        self._parsed: dict[str, tuple[bytes, list[tuple[str, int, int]]]] = {}

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
        if record is None or record.txid != last or record.state.phase is not Phase.COMMITTED:
            raise Violation(f"the run has ended, and the record is {record}")
        self.check_committed(record)
        for txid in range(last + 1):
            self._check_rows(txid, None)
        wanted = {_part(txid, task) for txid in range(last + 1) for task in (0, 1)}
        foreign = [path for path in self._world.files if path.startswith(OUT) and path not in wanted]
        if foreign:
            raise Violation(f"files that nobody decided were published: {foreign}")
        self.nothing_staged()

    def check_record(self, record: DecisionRecord) -> None:
        if record.txid >= 0 and record.batch_id != record.txid:
            raise Violation(f"transaction {record.txid} was recorded for batch {record.batch_id}")

    def check_entries(self, namespace: str, store: _Namespace) -> None:
        self._counts_in(namespace, store)

    def check_committed(self, record: DecisionRecord) -> None:
        """COMMITTED: every namespace is where the record says, and holds what it should; rows are published."""
        merged: dict[str, tuple[int, int]] = {}
        super().check_committed(record)
        for name in record.namespaces:
            if "count" in name:
                merged.update(self._counts_in(name, self.store(name)))
        counts = {word: count for word, (count, _) in merged.items()}
        if counts != self._expected.counts(record.txid):
            raise Violation(f"after txid {record.txid} the counts are {counts}")
        marks = {word: mark for word, (_, mark) in _words(self.store(f"{NAME}:remember-0")).items()}
        if marks.keys() != counts.keys():
            raise Violation(f"after txid {record.txid} the words remembered are {sorted(marks)}")
        for word in self._expected.words[record.txid]:
            if marks[word] != merged[word][1]:
                raise Violation(f"txid {record.txid}: {word!r} has marks of two attempts of its splitter")
        self._check_rows(record.txid, merged)

    def _counts_in(self, namespace: str, store: _Namespace) -> dict[str, tuple[int, int]]:
        entries = _words(store)
        if "count" in namespace:
            words, _ = entries.pop(SIZE, (0, 0))
            if words != len(entries):
                raise Violation(f"{namespace} at txid {store.metadata.committed} has {len(entries)} words, not {words}")
            expected = self._expected.counts(store.metadata.committed)
            for word, (count, _) in entries.items():
                if count != expected[word]:
                    raise Violation(
                        f"{namespace} at txid {store.metadata.committed}: {word!r} is {count}, not {expected[word]}"
                    )
        return entries

    def _check_rows(self, txid: int, state: dict[str, tuple[int, int]] | None) -> None:
        rows = [row for task in (0, 1) for row in self._rows_of(_part(txid, task))]
        if sorted((word, count) for word, count, _ in rows) != self._expected.rows(txid):
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


def _words(store: _Namespace) -> dict[str, Any]:
    return {word: tuple(value) for word, value in entries_of(store).items()}


def _part(txid: int, task: int) -> str:
    return f"{OUT}/part-{txid:012d}-out-{task:05d}.parquet"
