"""Messages that a source delivers again after a crash: counted once, and acked."""

import json
import threading
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.cli.main import app
from anchorbolt.engine import RunHandle
from anchorbolt.errors import SpoutError
from anchorbolt.spouts.message_ids import AckedMessages
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.testing import LocalCluster, ManualClock
from anchorbolt.testing.conformance.base import entries
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.tracking.redelivery import Known, Redelivery
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, Pairs, QueueSpout, told
from tests.support.stores import settings_of


class Forgetful(QueueSpout):
    """Dies before it tells its source of any ack."""

    def ack(self, msg_id: Any) -> None:
        raise ConnectionError("the source is gone")


class Unstable(Forgetful):
    stable_message_ids = False

    def __init__(self, *fields: str, acks: bool = False) -> None:
        super().__init__(*fields)
        self.acks = acks

    def ack(self, msg_id: Any) -> None:
        if not self.acks:
            super().ack(msg_id)
        told(ACKED, msg_id)


def counting(spout: QueueSpout, tasks: int = 1) -> Topology:
    return chain("redelivery", {"in": (spout, tasks), "count": (Count(), "word")})


def joining(spout: QueueSpout) -> Topology:
    return chain("joining", {"in": spout, "pairs": (Pairs(), 2, "id"), "count": (Count(), "word")})


def restart(messages: deque[Any]) -> None:
    """Deliver again what was not acked, as a source does to a driver that starts."""
    MESSAGES.clear()
    MESSAGES.extend(messages)


def test_a_message_whose_ack_was_lost_counts_once_and_is_acked_by_the_next_run() -> None:
    cluster = LocalCluster()
    messages = deque([(number, ("a",)) for number in range(5)])
    MESSAGES.extend(messages)
    with pytest.raises(SpoutError):
        finished(counting(Forgetful("word")), cluster=cluster)
    restart(messages)
    handle = finished(counting(QueueSpout("word")), cluster=cluster)
    assert handle.state("count") == {"a": 5}
    assert sorted(ACKED) == list(range(5))


def test_a_message_without_a_stable_id_counts_again() -> None:
    cluster = LocalCluster()
    messages = deque([(number, ("a",)) for number in range(5)])
    MESSAGES.extend(messages)
    with pytest.raises(SpoutError):
        finished(counting(Unstable("word")), cluster=cluster)
    assert ACKED == []
    restart(messages)
    handle = finished(counting(Unstable("word", acks=True)), cluster=cluster)
    assert handle.state("count")["a"] > 5
    assert sorted(ACKED) == list(range(5))


def test_once_its_source_knows_an_id_may_come_again() -> None:
    cluster = LocalCluster()
    for _ in range(2):
        restart(deque([(1, ("a",))]))
        handle = finished(counting(QueueSpout("word")), cluster=cluster)
    assert handle.state("count") == {"a": 2}


class DiesOnceItsSourceKnows(QueueSpout):
    def flush_acks(self) -> None:
        raise ConnectionError("the driver dies")


class AcksAgain(QueueSpout):
    """Its source takes acks of messages that it has not delivered in this run."""

    def __init__(self, *fields: str, acks: bool = True) -> None:
        super().__init__(*fields)
        self.acks = acks

    def ack_again(self, msg_ids: Any) -> bool:
        if self.acks:
            ACKED.extend(msg_ids)
        return self.acks


@pytest.mark.parametrize(
    ("tasks", "acks", "kept"), [(1, True, []), (3, True, []), (2, False, list(range(5)))], ids=["one", "three", "not"]
)
def test_messages_that_a_source_knows_of_leave_the_record_if_the_spout_can_ack_them_again(
    tasks: int, acks: bool, kept: list[int], tmp_path: Path
) -> None:
    provider = SqliteStateProvider(tmp_path)
    conf = settings_of(tmp_path)
    restart(deque((number, ("a",)) for number in range(5)))
    with pytest.raises(SpoutError):
        finished(counting(DiesOnceItsSourceKnows("word")), conf)
    assert acked_by_the_record(provider) == list(range(5))
    known = list(ACKED)
    restart(deque([(9, ("b",))]))
    handle = finished(counting(AcksAgain("word", acks=acks), tasks), conf)
    assert handle.state("count") == {"a": 5, "b": 1}
    assert acked_by_the_record(provider) == kept
    assert ACKED[len(known) :] == [*(range(5) if acks else ()), 9]


def recorded(provider: SqliteStateProvider) -> DecisionRecord:
    with closing(provider.open(record_namespace("redelivery"))) as storage:
        record, _ = DecisionLog(storage).load()
    assert record is not None
    return record


def acked_by_the_record(provider: SqliteStateProvider) -> list[Any]:
    return sorted(msg_id for messages in recorded(provider).acked for msg_id in messages.msg_ids())


def test_the_record_names_ackers_from_the_start_on_so_that_a_successor_with_fewer_clears_what_they_staged(
    tmp_path: Path,
) -> None:
    class Refused(QueueSpout):
        def open(self, *_: Any) -> None:
            raise ConnectionError("no source")

    config = settings_of(tmp_path)
    cluster, provider = LocalCluster(), SqliteStateProvider(tmp_path)

    def ackers_after(spout: QueueSpout, number: int) -> int:
        MESSAGES.append((number, ("a",)))
        conf = {**config, "topology.acker.executors": number}
        finished(counting(spout), conf, cluster=cluster)
        return recorded(provider).parallelism[ACKER_ID]

    assert ackers_after(QueueSpout("word"), 1) == 1
    with pytest.raises(SpoutError):
        ackers_after(Refused("word"), 3)
    assert recorded(provider).parallelism[ACKER_ID] == 3


@pytest.mark.parametrize(("before", "after"), [(1, 1), (3, 1), (1, 3), (2, 3)])
def test_trees_that_are_open_at_a_restart_complete_in_the_next_run_with_any_number_of_ackers(
    before: int, after: int
) -> None:
    class Dies(QueueSpout):
        def next_tuple(self) -> None:
            super().next_tuple()
            if not MESSAGES and opened():
                raise ConnectionError("the driver dies")

    def opened() -> bool:
        return bool(handles and handles[0].reports)

    first = [(number, (f"x{number}", number)) for number in range(20)]
    second = [(100 + number, (f"x{number}", number)) for number in range(20)]
    cluster, handles = LocalCluster(clock=ManualClock()), list[RunHandle]()
    restart(deque(first))
    handles.append(cluster.submit(joining(Dies("id", "value")), {"topology.acker.executors": before}))
    with pytest.raises(SpoutError):
        handles[0].await_termination(60)
    assert ACKED == []
    restart(deque(first + second))
    handle = finished(joining(QueueSpout("id", "value")), {"topology.acker.executors": after}, cluster=cluster)
    assert handle.state("count") == {f"x{number}": 1 for number in range(20)}
    assert sorted(ACKED) == sorted(msg_id for msg_id, _ in first + second)
    assert FAILED == []


def test_the_open_trees_of_an_acker_are_shown_like_any_state(tmp_path: Path) -> None:
    config = settings_of(tmp_path)
    MESSAGES.append((1, ("x", 1)))
    conf = tmp_path / "conf.json"
    conf.write_text(json.dumps(config))
    given = {**config, "topology.checkpoint.location": str(tmp_path / "checkpoint")}
    clock = ManualClock()
    handle = LocalCluster(clock=clock).submit(joining(QueueSpout("id", "value")), given, until_empty=False)
    while not handle.reports:
        assert not handle.await_termination(0.05)
    shown = CliRunner().invoke(app, ["state", "scan", "joining:__acker-0", "--conf", str(conf), "--json"])
    assert shown.exit_code == 0
    assert len([line for line in shown.output.splitlines() if line.startswith("{")]) == 1
    assert "written by" not in shown.output
    clock.advance(60)
    assert handle.stop(30)


def test_open_trees_of_a_spout_without_stable_ids_end_with_their_driver(tmp_path: Path) -> None:
    class Dies(Unstable):
        def fail(self, msg_id: Any) -> None:
            raise AssertionError("no time-out is over")

        def next_tuple(self) -> None:
            super().next_tuple()
            if handles and handles[0].reports:
                raise ConnectionError("the driver dies")

    conf = settings_of(tmp_path)
    cluster, handles = LocalCluster(clock=ManualClock()), list[RunHandle]()
    restart(deque([(1, ("x", 1)), (2, ("y", 2))]))
    handles.append(cluster.submit(joining(Dies("id", "value")), conf))
    with pytest.raises(SpoutError):
        handles[0].await_termination(60)
    restart(deque([(3, ("u", 3)), (4, ("u", 4))]))
    handle = finished(joining(Unstable("id", "value", acks=True)), conf, cluster=cluster)
    assert handle.state("count") == {"u": 1}
    assert sorted(ACKED) == [3, 4]
    provider = SqliteStateProvider(tmp_path)
    for name in provider.namespaces():
        if ":__acker-" in name:
            with closing(provider.open(name)) as storage:
                assert entries(storage) == {}


def test_an_open_tree_belongs_to_its_spout_after_restarts_in_which_the_tasks_had_other_ids() -> None:
    class Dies(QueueSpout):
        """Dies after the first wave of a run."""

        def __init__(self, run: int) -> None:
            super().__init__("id", "value")
            self.run = run

        def next_tuple(self) -> None:
            super().next_tuple()
            if not MESSAGES and len(handles) > self.run and handles[self.run].reports:
                raise ConnectionError("the driver dies")

    class Silent(QueueSpout):
        def next_tuple(self) -> None:
            pass

    def run(components: str, spout: QueueSpout, *messages: Any) -> RunHandle:
        builder = TopologyBuilder()
        for component in components:
            builder.set_spout(component, spout if component == "a" else Silent("id", "value"))
        builder.set_bolt("pairs", Pairs()).fields_grouping("a", "id").fields_grouping("b", "id")
        builder.set_bolt("count", Count()).fields_grouping("pairs", "word")
        restart(deque(messages))
        handles.append(cluster.submit(builder.create_topology("exchanged")))
        return handles[-1]

    cluster, handles = LocalCluster(clock=ManualClock()), list[RunHandle]()
    first, second = (1, ("x", 1)), (2, ("y", 2))
    with pytest.raises(SpoutError):
        run("ab", Dies(0), first).await_termination(60)
    with pytest.raises(SpoutError):
        run("ba", Dies(1), first, second).await_termination(60)
    handle = run("ba", QueueSpout("id", "value"), first, second, (3, ("x", 10)), (4, ("y", 20)))
    assert handle.await_termination(60)
    assert handle.state("count") == {"x": 1, "y": 1}
    assert sorted(ACKED) == [1, 2, 3, 4]


class HandedOver(QueueSpout):
    """Two tasks. While the second message is in flight, the source delivers the first one to the other task, too."""

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        super().open(conf, context, collector)
        self.index = context.this_task_index

    def next_tuple(self) -> None:
        if self.index == 0 and MESSAGES:
            super().next_tuple()
        elif self.index == 1 and OTHERS and EXECUTED.is_set():
            msg_id, values = OTHERS.popleft()
            self.pending[msg_id] = values
            self.collector.emit(values, msg_id)
            DELIVERED.set()

    def recall(self, msg_id: Any) -> None:
        del self.pending[msg_id]
        RECALLED.append((self.index, msg_id))

    def ack(self, msg_id: Any) -> None:
        super().ack(msg_id)
        LEFT[self.index] = dict(self.pending)


class WaitsForDelivery(Count):
    def execute(self, tup: Any) -> None:
        EXECUTED.set()
        assert DELIVERED.wait(30)
        super().execute(tup)


OTHERS: deque[Any] = deque()
RECALLED: list[Any] = []
LEFT: dict[int, Any] = {}
EXECUTED, DELIVERED = threading.Event(), threading.Event()


def test_a_task_is_told_of_a_message_that_its_source_has_delivered_to_another_task() -> None:
    MESSAGES.append((1, ("a",)))
    OTHERS.append((1, ("a",)))
    handle = finished(chain("over", {"in": (HandedOver("word"), 2), "count": (WaitsForDelivery(), "word")}), {})
    assert handle.state("count") == {"a": 1}
    assert (ACKED, RECALLED, LEFT) == ([1], [(0, 1)], {1: {}})


def test_a_message_that_comes_back_to_a_task_before_it_was_told_is_not_recalled_from_it() -> None:
    redelivery = Redelivery("in")
    for task in (0, 1, 0):
        redelivery.emit("m", task)
    assert (redelivery.take_recalled(0), redelivery.take_recalled(1)) == ([], ["m"])
    assert redelivery.take_recalled(1) == []
    assert (redelivery.pending(0), redelivery.pending(1)) == (1, 0)


def test_a_message_of_an_earlier_run_that_no_task_has_received_yet_is_told_to_no_task() -> None:
    known = Redelivery("in", ["old"])
    assert known.emit_all(["new", None, "old", "new"], 1) == {2: Known.MOVED, 3: Known.IN_FLIGHT}
    known.lose(1, ["new"])
    assert known.settle([], []) == {}
    assert known.emit_all(["new"], 0) == {}
    told = known.settle([*AckedMessages.parts_of("in", ["old", "new"])], [])
    assert {task: settlement.acked for task, settlement in told.items()} == {0: ["new"]}
    assert known.emit_all(["old", "newer"], 0) == {0: Known.ACKED}
    known.confirm(["old", "new"])
    assert known.unconfirmed() == []


def test_a_lost_task_gets_nothing_back() -> None:
    known = Redelivery("in")
    known.emit_all([1, 2, 3], 0)
    assert known.emit_all([2], 1) == {0: Known.MOVED}
    known.lose(0, [1])
    assert known.settle([], []) == {}
    assert known.take_recalled(0) == []
    assert known.emit_all([1, 3], 0) == {1: Known.MOVED}


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_message_whose_tuple_is_lost_fails_at_the_task_that_has_received_it_since(*, is_lost: bool) -> None:
    known = Redelivery("in")
    assert known.emit_all([1], 0) == {}
    assert known.emit_all([1], 1) == {0: Known.MOVED}
    if is_lost:
        known.lose(1, [])
    known.lose(0, [1])
    told = known.settle([], [])
    failed = {task: [message.msg_id for message in settlement.failed] for task, settlement in told.items()}
    assert failed == ({} if is_lost else {1: [1]})
    assert known.emit_all([1], 1) == {}
