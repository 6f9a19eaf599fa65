"""Rich spouts in workers: each of the two sides, with the other one played. The simulation runs both together."""

import pickle
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.hosted_spouts import HostedSpouts, Order, Said, Status
from anchorbolt.engine.workers.spouts import RemoteHost, WorkerSpouts
from anchorbolt.errors import InfrastructureLost, WorkerLost
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.serialization import pack
from anchorbolt.spouts.message_ids import AckedMessages
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.tracking.redelivery import Known, Redelivery
from tests.engine.jobs import chain
from tests.reliability.jobs import Count, QueueSpout

TASK = ("in", 0)
WORDS = ["a", "b"]
DEADLINE_S = 30.0


class Answering(threading.Condition):
    """A condition of one thread: whatever it waits for comes from the next answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: deque[Callable[[], None]] = deque()

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        while not predicate():
            self.answers.popleft()()
        return True


class PlayedFleet:
    """Two workers, each with a task of the spout. `say` and `is_replaced` are of the first one."""

    slots = 2
    has_ended = False

    def __init__(self) -> None:
        self.changed = Answering()
        self.spouts: WorkerSpouts | None = None
        self.orders: list[tuple[Order, tuple[Any, ...]]] = []
        self.msg_ids: Sequence[Any] = range(len(WORDS))  # of the tuples that wait

    def has(self, slot: int) -> bool:
        return True

    def tell(self, slot: int, frame: Frame) -> None:
        order, task, arguments = pickle.loads(frame.payload)  # noqa: S301 - made here
        self.orders.append((order, arguments))
        if order is Order.TAKE:
            intake = arguments[0], [("default", 1, 0.0, [msg_id]) for msg_id in self.msg_ids]
            self.changed.answers.append(partial(self._say, Said(task, Status(), intake=intake), slot))
        elif order is Order.FETCH:
            fetched = *arguments, pack([[WORDS[arguments[1]]]])
            self.changed.answers.append(partial(self._say, Said(task, Status(), fetched=fetched), slot))

    def say(self, **status: Any) -> None:
        self._say(Said(TASK, Status(**status)), 0)

    def _say(self, said: Said, slot: int) -> None:
        assert self.spouts is not None
        self.spouts.said(slot, pickle.dumps(said))
        self.spouts.do_later()

    def is_replaced(self) -> None:
        assert self.spouts is not None
        self.spouts.gone(0)
        self.spouts.came(0)

    def hold(self) -> int:
        """Return the number of the last order to hold."""
        return [arguments[0] for order, arguments in self.orders if order is Order.HOLD][-1]  # type: ignore[no-any-return]


@pytest.fixture
def plan() -> ExecutionPlan:
    topology = chain("words", {"in": (QueueSpout("word"), 2), "count": (Count(), "word")})
    return prepare_plan(topology, {}, memory=MemoryStateProvider(), location="nowhere")


@pytest.fixture
def fleet() -> PlayedFleet:
    return PlayedFleet()


@pytest.fixture
def flow() -> FlowControl:
    return FlowControl(100, 1, 0.5, enabled=True)


@pytest.fixture
def known() -> Redelivery:
    return Redelivery("in")


@pytest.fixture
def hosts(plan: ExecutionPlan, fleet: PlayedFleet, flow: FlowControl, known: Redelivery) -> list[RemoteHost]:
    spouts = WorkerSpouts(fleet)  # type: ignore[arg-type]
    hosts = [spouts.new_host(plan, task, flow, time.monotonic, lambda: None) for task in (TASK, ("in", 1))]
    for host in hosts:
        host.redelivery = known
        host.start()
    return hosts


@pytest.fixture
def host(hosts: list[RemoteHost]) -> RemoteHost:
    return hosts[0]


def test_a_task_has_drained_once_its_worker_has_obeyed_the_last_order(fleet: PlayedFleet, host: RemoteHost) -> None:
    host.pause()
    fleet.say(is_drained=True, hold=fleet.hold())
    assert host.is_drained
    first = fleet.hold()
    host.resume()
    host.drain()
    assert not host.is_drained
    fleet.say(is_drained=True, hold=first)
    assert not host.is_drained
    fleet.say(is_drained=True, hold=fleet.hold())
    assert host.is_drained


def test_a_replacement_is_held_as_the_lost_worker_was(fleet: PlayedFleet, host: RemoteHost) -> None:
    host.pause()
    fleet.orders.clear()
    fleet.is_replaced()
    assert [order for order, _ in fleet.orders] == [Order.OPEN, Order.HOLD]
    assert fleet.orders[1][1][1:] == (True, False)


def test_the_tuples_of_a_lost_worker_hold_no_spout_back(
    fleet: PlayedFleet, host: RemoteHost, flow: FlowControl
) -> None:
    fleet.say(emitted=1 << 40)
    assert flow.is_throttled
    fleet.is_replaced()
    assert not flow.is_throttled
    fleet.say(emitted=1 << 40)
    assert flow.is_throttled


def test_each_chunk_of_an_intake_has_its_own_tuples(host: RemoteHost) -> None:
    host.ask()
    assert [chunk.columns() for chunk in host.take()] == [[[word]] for word in WORDS]


def test_tuples_that_were_lost_cannot_be_fetched(fleet: PlayedFleet, host: RemoteHost) -> None:
    host.ask()
    first, second = host.take()
    assert first.columns() == [[WORDS[0]]]
    fleet.changed.answers.append(fleet.is_replaced)
    for chunk in (second, first):
        with pytest.raises(InfrastructureLost):
            chunk.columns()


def test_a_replacement_does_not_hear_what_others_have_received_of_the_lost_worker(
    fleet: PlayedFleet, hosts: list[RemoteHost]
) -> None:
    for host in hosts:
        host.ask()
    assert sum(chunk.size for chunk in hosts[0].take()) == len(WORDS)
    fleet.is_replaced()
    assert sum(chunk.size for chunk in hosts[1].take()) == 0
    sent = [order for order, _ in fleet.orders]
    assert Order.DROP in sent
    assert Order.RECALL not in sent


def test_a_replacement_drops_nothing_of_the_lost_worker(fleet: PlayedFleet, host: RemoteHost) -> None:
    class LosesWorker(Redelivery):
        def emit_all(self, msg_ids: Sequence[Any], task_index: int) -> dict[int, Known]:
            fleet.is_replaced()
            return super().emit_all(msg_ids, task_index)

    host.redelivery = LosesWorker("in", in_flight=range(len(WORDS)))
    host.ask()
    assert sum(chunk.size for chunk in host.take()) == 0
    assert fleet.orders[-1][0] is Order.HOLD


def test_acks_are_forgotten_when_two_waves_have_begun_since_the_source_has_them(
    fleet: PlayedFleet, hosts: list[RemoteHost], known: Redelivery
) -> None:
    host = hosts[0]
    host.ask()
    msg_ids = [msg_id for chunk in host.take() for msg_id in chunk.msg_ids]
    told = known.settle([*AckedMessages.parts_of("in", msg_ids)], [])
    host.settle(told[0].acked, [])
    fleet.say(settled=0)
    for _ in range(3):
        host.ask()
    fleet.say(settled=1)
    host.ask()
    assert known.acked == msg_ids
    host.ask()
    assert known.acked == []


def settled(fleet: PlayedFleet, host: RemoteHost, known: Redelivery, acked: Sequence[Any]) -> tuple[Any, ...]:
    """Let a wave ack messages; return the arguments of the order to the worker."""
    told = known.settle([*AckedMessages.parts_of("in", acked)], [])
    host.settle(told[0].acked, [])
    order, arguments = fleet.orders[-1]
    assert order is Order.SETTLE
    return arguments


def test_a_wave_that_acks_its_whole_intake_does_not_send_the_ids_back(
    fleet: PlayedFleet, host: RemoteHost, known: Redelivery
) -> None:
    fleet.msg_ids = [("x", number) for number in range(len(WORDS))]
    host.ask()
    assert settled(fleet, host, known, [msg_id for chunk in host.take() for msg_id in chunk.msg_ids]) == (None, [])


@pytest.mark.parametrize(("earlier", "of_intake"), [(("x", 1), ("x", True)), (1, 1.0), (0, False)])
def test_the_ack_of_an_earlier_message_is_not_that_of_the_intake_whose_id_python_calls_equal(
    fleet: PlayedFleet, host: RemoteHost, known: Redelivery, earlier: Any, of_intake: Any
) -> None:
    for msg_id in (earlier, of_intake):  # both trees stay open
        fleet.msg_ids = [msg_id]
        host.ask()
        assert len(host.take()) == 1
    assert repr(settled(fleet, host, known, [earlier])) == repr(([earlier], []))


def lost(fleet: PlayedFleet, host: RemoteHost, known: Redelivery) -> None:
    """Lose the worker in a wave; the wave ends."""
    fleet.is_replaced()
    host.forget(range(len(WORDS)))
    known.settle([], [])


def test_the_driver_keeps_the_intake_after_a_lost_one_until_one_is_not_lost(
    fleet: PlayedFleet, host: RemoteHost, known: Redelivery
) -> None:
    kept = []
    for is_lost in (True, True, False, False):
        host.ask()
        chunks = host.take()
        kept.append(host.keeps_intake)
        assert [chunk.payload for chunk in chunks if chunk.size] == (
            [pack([[word]]) for word in WORDS] if host.keeps_intake else [b""] * len(WORDS)
        )
        if is_lost:
            lost(fleet, host, known)
        else:
            known.settle([*AckedMessages.parts_of("in", [*range(len(WORDS))])], [])
            known.confirm([*range(len(WORDS))])
    assert kept == [False, True, True, False]


def test_an_intake_that_is_lost_while_it_is_fetched_was_not_emitted(
    fleet: PlayedFleet, host: RemoteHost, known: Redelivery
) -> None:
    host.ask()
    host.take()
    lost(fleet, host, known)
    host.ask()
    fleet.changed.answers.append(fleet.is_replaced)
    assert host.take() == []
    assert known.emit_all(range(len(WORDS)), 1) == {}


def test_intakes_without_stable_ids_that_are_lost_in_a_row_end_the_run(fleet: PlayedFleet, host: RemoteHost) -> None:
    host.has_stable_ids, host.redelivery = False, None
    for is_lost in (True, True, True, False, True, True, True, True):
        assert host.failure is None
        fleet.is_replaced()  # between two waves: no tuple is the cause
        fleet.say(is_waiting=True)
        host.ask()
        assert len(host.take()) == len(WORDS)
        assert not host.keeps_intake
        if is_lost:
            fleet.is_replaced()
            host.forget(())
    assert isinstance(host.failure, WorkerLost)


def test_errors_that_a_lost_worker_has_reported_still_count(fleet: PlayedFleet, host: RemoteHost) -> None:
    fleet.say(errors_reported=2)
    fleet.is_replaced()
    fleet.say(errors_reported=1)
    assert host.errors_reported == 3


class Driver:
    """The driver of one worker."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self._said: queue.Queue[Frame] = queue.Queue()
        self.worker = HostedSpouts(plan, self._said.put)

    def order(self, order: Order, *arguments: Any) -> None:
        self.worker.obey(order, TASK, arguments)

    def next(self) -> Said:
        """Return what the worker says next."""
        frame = self._said.get(timeout=DEADLINE_S)
        assert frame.kind is Kind.SPOUT
        return pickle.loads(frame.payload)  # type: ignore[no-any-return]  # noqa: S301 - made by the worker

    def wait_for(self, **status: Any) -> None:
        """Wait until the worker says that the task has this state."""
        deadline = time.monotonic() + DEADLINE_S
        while not status.items() <= self.next().status._asdict().items():
            assert time.monotonic() < deadline


@pytest.fixture
def driver(plan: ExecutionPlan) -> Iterator[Driver]:
    driver = Driver(plan)
    yield driver
    driver.worker.close()


def test_a_worker_says_which_order_to_hold_it_has_obeyed(driver: Driver) -> None:
    driver.order(Order.OPEN, [], False)
    driver.order(Order.HOLD, 1, True, False)
    driver.wait_for(is_open=True, hold=1, is_drained=True)
    driver.order(Order.HOLD, 2, False, False)
    driver.wait_for(hold=2, is_drained=False)
    driver.order(Order.HOLD, 3, False, True)
    driver.wait_for(hold=3, is_drained=True)
    driver.order(Order.CLOSE)
    driver.wait_for(is_closed=True)


def test_a_replacement_does_not_have_the_intake_of_the_lost_worker(driver: Driver) -> None:
    driver.order(Order.OPEN, [], False)
    with pytest.raises(InfrastructureLost):
        list(driver.worker.rows(TASK, 1, [b""], 5))
    driver.order(Order.FETCH, 1, 0)
    while (fetched := driver.next().fetched) is None:
        pass
    assert fetched == (1, 0, b"")


def test_a_replacement_settles_no_message_of_the_lost_worker(driver: Driver) -> None:
    driver.order(Order.OPEN, None, False)
    driver.order(Order.SETTLE, [1], [2])
    driver.wait_for(settled=1, pending=0, failure=None)
