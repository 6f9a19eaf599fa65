"""Tasks of a `RedisStreamsSpout` against a model; which consumers a task takes for its siblings."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.spouts import RedisStreamsSpout, redis_reader
from anchorbolt.spouts.redis_reader import Task
from tests.servers.redis_server import RedisServer
from tests.servers.tcp_proxy import Loss, TcpProxy
from tests.spouts.collected import Running, running
from tests.spouts.redis_streams import KEY, add, pending
from tests.support.programs import printed

NUMBERS = st.integers(0, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["read", "ack", "fail"]), NUMBERS),
        st.tuples(st.just("kill"), st.integers(1, 4)),
        st.tuples(st.just("lose"), st.sampled_from([Loss.BEFORE, Loss.REPLY])),
    ),
    max_size=40,
)


class Run:
    """The tasks of one run, and the ids that each has emitted and not settled."""

    def __init__(self, stack: ExitStack, spout: RedisStreamsSpout, tasks: int) -> None:
        self.tasks: list[Running] = [stack.enter_context(running(spout, index, tasks)) for index in range(tasks)]
        self.in_flight: list[list[str]] = [[] for _ in self.tasks]

    def read(self, number: int) -> list[str]:
        index = number % len(self.tasks)
        emitted = [id for id, _ in self.tasks[index].read_times(1)]
        self.in_flight[index] += emitted
        return emitted

    def settle(self, number: int, *, acked: bool, every: int = 2) -> list[str]:
        """Ack or fail one in `every` messages of a task; return them."""
        index = number % len(self.tasks)
        ids = self.in_flight[index][number % every :: every]
        (self.tasks[index].ack if acked else self.tasks[index].fail)(*ids)
        self.in_flight[index] = [id for id in self.in_flight[index] if id not in ids]
        return ids


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis_server.client() as client:
        yield client


@pytest.mark.slow
def test_every_entry_is_acked_and_none_is_in_flight_twice_or_emitted_after_its_ack(
    redis_server: RedisServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_reader, "_SWEEP_S", 0.0)
    monkeypatch.setattr("anchorbolt.util.retry._FIRST_PAUSE_S", 0.0)

    @settings(max_examples=100)
    @given(STEPS)
    def check(steps: list[tuple[str, int | Loss]]) -> None:
        client.flushall()
        added: set[str] = set()
        acked: set[str] = set()
        with TcpProxy(redis_server.port) as proxy, ExitStack() as runs:
            spout = RedisStreamsSpout(KEY, ["text"], host=redis_server.host, port=proxy.port, batch=5)
            run = Run(runs.enter_context(ExitStack()), spout, 2)
            stack = runs.enter_context(ExitStack())

            def read(number: int) -> None:
                before = [id for part in run.in_flight for id in part]
                emitted = run.read(number)
                assert not set(emitted) & (set(before) | acked)
                assert len(set(emitted)) == len(emitted)

            for step, what in steps:
                if step == "lose":
                    assert isinstance(what, Loss)
                    proxy.arm(what)
                    continue
                assert isinstance(what, int)
                if step == "add":
                    added.update(add(client, *"x" * what))
                elif step == "read":
                    read(what)
                elif step == "kill":
                    stack.close()
                    stack = runs.enter_context(ExitStack())
                    run = Run(stack, spout, what)
                else:
                    settled = run.settle(what, acked=step == "ack")
                    acked.update(settled if step == "ack" else ())
            for number in range(10_000):
                if acked == added:
                    break
                read(number)
                acked.update(run.settle(number, acked=True, every=1))
            assert acked == added
            assert pending(client) == {}

    check()


@pytest.mark.parametrize(
    ("consumer", "works"),
    [
        ("words:lines-0", True),
        ("words:lines-1", True),
        ("words:lines-2", False),
        ("words:lines-10", False),
        ("words:lines-", None),
        ("words:lines-x", None),
        ("words:lines-²", None),
        ("words:lines--1", None),
        ("words:lines2-0", None),
        ("other", None),
        ("\udcff", None),
    ],
)
def test_the_name_of_a_consumer_tells_whether_it_is_a_task_of_this_run(consumer: str, works: bool | None) -> None:
    assert Task("words:lines-", 0, 2).works_as(consumer) is works


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_exactly_one_task_looks_after_a_consumer_so_that_no_two_claim_the_same_entry(tasks: int) -> None:
    every = [Task("words:lines-", index, tasks) for index in range(tasks)]
    names = [*(f"words:lines-{number}" for number in range(50)), "\udcff"]
    chosen = [[task.index for task in every if task.takes_over(name)] for name in names]
    assert {len(each) for each in chosen} == {1}
    assert {index for each in chosen for index in each} == set(range(tasks))


def test_other_spouts_do_not_load_the_client_of_redis() -> None:
    program = "import sys, anchorbolt.spouts as spouts; spouts.GeneratorSpout; print('redis' in sys.modules)"
    assert printed("-c", program) == "False\n"
