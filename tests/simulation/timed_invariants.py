"""The invariants of timers, TTLs and event time: every committed wave is as the model says."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Round
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.serialization.codecs import INDEX_TAG
from anchorbolt.state_backends.timed.expiry import live, split
from tests.simulation.actors import Process
from tests.simulation.timed_model import (
    Row,
    TimedModel,
    Times,
    check_no_timer_waits,
    check_rows,
    check_state,
    check_times,
)
from tests.simulation.timed_topology import FIRED, FIRINGS_OF_TASK, TIMED, TOTAL, TTL_MS, delay_ms, same_delay_ms
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World

_CODEC = MsgpackCodec()
_TASKS = (0, 1)


class TimedInvariants:
    """What must hold for the bolt with time."""

    def __init__(self, world: World, topology: str) -> None:
        self._world = world
        self._topology = topology
        scenario = world.scenario
        delay = delay_ms if scenario.is_limited else same_delay_ms
        self._model = TimedModel(world.batches, scenario.timers_per_wave, delay)
        self._clocks: dict[int, int] = {}  # of the decided waves
        self._begun: dict[tuple[Process, int], int] = {}  # the clocks of each driver's waves

    def begun(self, current: Round) -> None:
        """Check the clock of a round: all rounds of a wave have the same."""
        known = self._begun.setdefault((self._world.process, current.txid), current.clock)
        if known != current.clock:
            raise Violation(f"txid {current.txid} began at {known}, and a round of it at {current.clock}")

    def decided(self, record: DecisionRecord) -> None:
        """Note the clock of a decided wave, and check that it never changes."""
        if self._world.regressed:
            self._clocks[record.txid] = record.clock
        elif self._clocks.setdefault(record.txid, record.clock) != record.clock:
            raise Violation(f"txid {record.txid} was decided at {self._clocks[record.txid]} and at {record.clock}")

    def committed(self, record: DecisionRecord, batch_of: Callable[[int], int | None]) -> None:
        """Check a COMMITTED wave: the record, the state and the rows."""
        txid = record.txid
        found: dict[str, int] = {}
        task_of: dict[str, int] = {}
        firings: dict[int, int] = {}
        for task in _TASKS:
            entries = self._entries(task, record)
            firings[task] = entries.pop(FIRINGS_OF_TASK, 0)
            found.update(entries)
            task_of.update((key.removeprefix(TOTAL), task) for key in entries if key.startswith(TOTAL))
        wanted = self._model.after([(batch_of(each), self._clocks[each]) for each in range(txid + 1)], task_of)
        check_state(wanted, found, txid)
        if firings != {task: wanted.firings.get(task, 0) for task in _TASKS}:
            raise Violation(f"after txid {txid} the tasks have fired {firings} timers, not {dict(wanted.firings)}")
        check_rows(wanted, self._rows(txid), txid)
        if TIMED in record.times or wanted.timers:
            check_times(wanted, record.times[TIMED], txid)
        self._wanted = wanted

    def at_the_end(self, record: DecisionRecord, batch_of: Callable[[int], int | None]) -> None:
        """Check the rows of all waves, and that no timer waits."""
        self.committed(record, batch_of)
        last: Times = self._wanted
        check_no_timer_waits(last, max(last.clock, int(self._world.clock() * 1000)))
        rows = [row for txid in range(record.txid + 1) for row in self._rows(txid)]
        for task in _TASKS:
            numbers = sorted(number for each, number, *_ in rows if each == task)
            if numbers != list(range(1, last.firings.get(task, 0) + 1)):
                raise Violation(f"the sink has the firings {numbers} of task {task}")

    def _entries(self, task: int, record: DecisionRecord) -> dict[str, Any]:
        """Return the live entries of a task at a record's clock."""
        store = self._world.store.contents.get(f"{self._topology}:{TIMED}-{task}")
        if store is None:
            return {}
        for key, data in store.entries.items():
            due = None if key.startswith(INDEX_TAG) else split(data)[0]
            if due is not None and store.metadata.committed == record.txid and due[0] + TTL_MS // 4 < record.clock:
                raise Violation(f"txid {record.txid} has left {_CODEC.decode(key)!r}, which expired at {due[0]}")
        decode = _CODEC.decode
        return {decode(each.key): decode(each.value) for each in live(store.entries.items(), record.clock)}

    def _rows(self, txid: int) -> list[Row]:
        rows: list[Row] = []
        for task in _TASKS:
            data = self._world.files.get(f"{FIRED}/part-{txid:012d}-fired-{task:05d}.parquet")
            if data is not None:
                rows += [tuple(row.values()) for row in pa.ipc.open_stream(data).read_all().to_pylist()]
        return rows
