"""Every buffer is full at the same time: a round waits, none of its processes fails or grows, and all arrives."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope, TaskReport, reports_in
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.engine.workers import feed as feed_module
from anchorbolt.engine.workers.feed import COUNTS_LEVEL, Feed, table_to_text
from anchorbolt.engine.workers.fleet import Fleet
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.gate import SECRET_BYTES
from anchorbolt.engine.workers.links import Secret
from anchorbolt.engine.workers.rounds import Slot, Table
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import unpack
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends.contract import Fence
from anchorbolt.topology import TopologyBuilder
from tests.cli.command import wait_until
from tests.engine.jobs import kept_in
from tests.engine.workers.processes.hosts import ProcessHosts
from tests.engine.workers.processes.jobs import Marks, Total
from tests.engine.workers.processes.runs import PATIENCE_S
from tests.engine.workers.processes.test_memory import COPIES, LONGEST, SMALL, Copies, Forwards
from tests.support.process_memory import memory_mb

pytestmark = pytest.mark.slow

ROWS = 1000
EARLY = 100  # rows that the spout emits before a bolt holds: the others find a worker that takes nothing
FRAME = 16 << 20
UNKNOWN = 1 << 40  # a round that does not exist: what the driver says of it has no effect
MOST_GROWTH_MB = 80


class Flood:
    """A stream spout whose only task is in this process, two workers, and their driver."""

    def __init__(self, folder: Path) -> None:
        self.marks = Marks(folder)
        builder = TopologyBuilder()
        builder.set_spout("in", StreamSpout(lambda spark: None, fields=["key", "value"]))  # type: ignore[arg-type, return-value]
        builder.set_bolt("copies", Copies(), 2).shuffle_grouping("in")
        builder.set_bolt("forward", Forwards(self.marks), 2).fields_grouping("copies", "key")
        builder.set_bolt("total", Total(), 2).fields_grouping("forward", "key")
        self._plan: ExecutionPlan = prepare_plan(builder.create_topology("flood"), {**kept_in(folder), **SMALL})
        self._secret = Secret(secrets.token_bytes(SECRET_BYTES))
        self.hosts = ProcessHosts(self._plan.pickled(), 2, folder)
        self.fleet = Fleet([self._plan], 2, self.hosts, "127.0.0.1", "127.0.0.1", self._secret)
        self.fleet.start()

    def run(self, number: int, rows: int) -> list[TaskReport]:
        """Run a round; return the reports of its tasks."""
        current = Round(0, Fence(1, number))

        def feed(
            fleets_number: int, table: Table, done: Future[None]
        ) -> tuple[Mapping[tuple[int, Slot], int], list[bytes]]:
            task = run_spout_task(self._plan, "in", 0, current, self._values(rows))
            sent: Counter[tuple[int, Slot]] = Counter()
            reports = []
            for each in Feed(self._plan, self._secret, table_to_text(fleets_number, table), 0).pushed(task):
                if each.level == COUNTS_LEVEL:
                    sent.update({(level, slot): blobs for level, slot, blobs in unpack(each.payload)})
                else:
                    reports.append(each.payload)
            return sent, reports

        payloads = self.fleet.run(0, current, {}, feed)
        return reports_in([Envelope(0, 0, 0, payload) for payload in payloads], current)

    def _values(self, rows: int) -> Iterator[SourceRows]:
        for row in range(1, rows + 1):
            if row > EARLY:
                self.marks.wait_until_held()
            yield SourceRows("default", 1, [[row], [b"x" * LONGEST]])

    @property
    def memory(self) -> dict[int, float]:
        return {each.pid: memory_mb(each.pid) for each in self.fleet.figures()}

    @property
    def spilled(self) -> int:
        return sum(each.spilled_bytes for each in self.fleet.figures())

    def close(self) -> None:
        self.marks.release()
        self.fleet.close()
        self.hosts.end_all()
        for link in feed_module._links.values():
            link.close()


@pytest.fixture
def flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flood]:
    monkeypatch.setattr(feed_module, "_links", {})
    flood = Flood(tmp_path)
    yield flood
    flood.close()


def executed(reports: list[TaskReport]) -> Counter[str]:
    assert all(report.failure is None for report in reports)
    found: Counter[str] = Counter()
    for report in reports:
        found[report.component] += report.tuples_in
    return found


def expected(rows: int) -> dict[str, int]:
    return {"in": rows, "copies": rows, "forward": rows * COPIES, "total": rows * COPIES}


def test_full_buffers_between_all_processes_neither_fail_a_round_nor_grow(flood: Flood) -> None:
    assert executed(flood.run(1, 10)) == expected(10)
    before, workers = flood.memory, flood.fleet.figures()
    peak = dict(before)
    flood.marks.arm()

    def look() -> None:
        for pid, memory in flood.memory.items():
            peak[pid] = max(peak[pid], memory)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(flood.run, 2, ROWS)
        try:
            held = flood.marks.wait_until_held()
            [slot] = [each.slot for each in workers if each.pid == held]
            link = flood.fleet.roster.workers[slot].link
            for _ in range(2):
                with flood.fleet.changed:
                    flood.fleet.roster.tell(slot, Frame(Kind.EXPECT, UNKNOWN, payload=b"\xc6" + bytes(FRAME)))
            assert link.bytes_waiting > 0
            feeds = feed_module._links
            wait_until(
                lambda: any(each.bytes_waiting for each in list(feeds.values())),
                "a full buffer of the spout",
                PATIENCE_S,
            )
            pulses: list[Sequence[Any]] = []  # of the other worker, one a second

            def has_stopped() -> bool:
                pulse = flood.fleet.roster.workers[1 - slot].pulse
                if not pulses or pulse is not pulses[-1]:
                    pulses.append(pulse)
                return len(pulses) > 2 and pulses[-1] == pulses[-2]

            wait_until(has_stopped, "full buffers of the other worker", PATIENCE_S)
            look()
            assert not running.done()
        finally:
            flood.marks.release()
        wait_until(lambda: look() or running.done(), "the end of the round", PATIENCE_S)
        assert executed(running.result()) == expected(ROWS)
    assert link.bytes_waiting == 0
    assert {each.pid for each in flood.fleet.figures()} == {*before}
    wait_until(lambda: flood.spilled > ROWS * LONGEST, "the spilled bytes in the figures", PATIENCE_S)
    for pid in before:
        assert peak[pid] - before[pid] < MOST_GROWTH_MB  # of 650 MB that go through each level
