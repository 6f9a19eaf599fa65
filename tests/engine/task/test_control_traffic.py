"""How many bytes a wave takes besides its data, by the real encoders; the text of a round."""

import pickle
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.checkpoint.decision import Committed, DecisionRecord
from anchorbolt.checkpoint.ports import BatchTry, HandOff, Round, TaskKey
from anchorbolt.engine import LocalCluster
from anchorbolt.engine.local import runner as levels
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_tasks
from anchorbolt.engine.task.messages import Envelope, TuplesMessage, decode_message
from anchorbolt.engine.task.round_text import attempt_id, round_from_text, round_to_text
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.rules import check_attempt
from anchorbolt.topology import Topology
from anchorbolt.transactional import TransactionAttempt
from tests.engine.jobs import CountWords, Scale, SplitSentence, Total, chain, feeder, run, word_count

_ROW = 3 * 4 + 8  # bytes of a row of the shuffle besides its payload: three numbers, and the payload's length


def four_bolts(tasks: int) -> Topology:
    return chain(
        "four-bolts",
        {
            "sentences": feeder(*([f"word{number} other{number}"] for number in range(3))),
            "split": (SplitSentence(), tasks),
            "count": (CountWords(), tasks, "word"),
            "scale": (Scale(), tasks),
            "total": (Total(), tasks, "letter"),
        },
    )


class Traffic:
    """Counts the bytes of one wave after the other."""

    def __init__(self) -> None:
        self.waves: list[Counter[str]] = []
        self._first = 0  # execution of the round
        self._seq = -1
        self._round: Round | None = None

    def run_tasks(
        self, plan: ExecutionPlan, tasks: Sequence[TaskKey], current: Round, registry: Any, envelopes: Any
    ) -> Iterator[Envelope]:
        if current.fence.seq != self._seq:
            self._seq = current.fence.seq
            self._first += len(plan.wiring.places) + 1
            self.waves.append(Counter())
            self._text = round_to_text(plan, current)
            self._round = round_from_text(plan, self._text)
        assert self._round is not None
        wave = self.waves[-1]
        wave["round"] += len(self._text)
        level, partition = plan.wiring.places[tasks[0]]
        # Spark's tasks run side by side; with two cores, neighbours change places now and then.
        execution = self._first + sum(map(len, plan.wiring.levels[: level - 1])) + (partition ^ (partition % 7 == 3))
        attempts = [attempt_id(plan, current, execution, position) for position in range(len(tasks))]
        for sent in run_bolt_tasks(plan, tasks, self._round, registry, envelopes, attempts):
            is_data = isinstance(decode_message(sent.payload), TuplesMessage)
            wave["data" if is_data else "reports"] += len(sent.payload) + _ROW
            yield sent

    def encode(self, record: DecisionRecord) -> bytes:
        encoded = encode(record)
        if self.waves:
            self.waves[-1]["decision"] += len(encoded)
        return encoded


encode = DecisionRecord.encode


@pytest.mark.parametrize(
    ("tasks", "most_bytes"),
    [
        (64, 1 << 20),
        pytest.param(256, 4 << 20, marks=pytest.mark.slow),
        pytest.param(1000, 16 << 20, marks=pytest.mark.slow),
    ],
)
def test_a_wave_with_four_bolts_takes_a_few_kilobytes_a_task(
    tasks: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = Traffic()
    monkeypatch.setattr(levels, "run_bolt_tasks", traffic.run_tasks)
    monkeypatch.setattr(DecisionRecord, "encode", lambda record: traffic.encode(record))
    run(LocalCluster(), four_bolts(tasks))
    for number, wave in enumerate(traffic.waves):
        control = wave.total() - wave["data"]
        print(f"{tasks} tasks, wave {number}: {control:,} bytes of {dict(wave)}")
        assert 0 < control <= most_bytes
    assert len(traffic.waves) == 3


def test_the_plan_that_each_task_gets_is_as_long_with_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[int, int] = {}

    def run_tasks(plan: ExecutionPlan, *arguments: Any) -> Iterator[Envelope]:
        pickled = plan.pickled("provider")
        sizes.setdefault(len(plan.wiring.tasks["count"]), len(pickled))
        copied: ExecutionPlan = pickle.loads(pickled)  # noqa: S301 - made above
        assert (copied.wiring.places, copied.wiring.namespaces, copied.wiring.task_ids) == (
            plan.wiring.places,
            plan.wiring.namespaces,
            plan.wiring.task_ids,
        )
        return run_bolt_tasks(plan, *arguments)

    monkeypatch.setattr(levels, "run_bolt_tasks", run_tasks)
    for tasks in (2, 64):
        run(LocalCluster(), four_bolts(tasks))
    assert sizes[64] <= sizes[2] + 16


def plan_of(tasks: int) -> ExecutionPlan:
    return prepare_plan(
        word_count(feeder("a"), parallelism=tasks), {}, memory=MemoryStateProvider(), location="nowhere"
    )


PLAN = plan_of(5)
TASKS = st.sampled_from(list(PLAN.wiring.namespaces.values()))
ATTEMPTS = st.one_of(
    st.builds(
        lambda run, seq, execution: f"{run}{seq:08x}{execution:010x}",
        st.sampled_from(["0123456789abcd", "fedcba98765432"]),
        st.integers(1, 9),
        st.integers(0, 2**40 - 1),
    ),
    st.text("0123456789abcdef", min_size=32, max_size=32),  # as other engines name theirs
    st.sampled_from(["", "A" * 32, "an attempt of somebody's own provider"]),
)


@given(st.dictionaries(TASKS, st.builds(Committed, st.integers(0, 40), ATTEMPTS)), st.dictionaries(TASKS, ATTEMPTS))
def test_each_task_finds_what_is_committed_and_who_won(
    committed: dict[TaskKey, Committed], winners: dict[TaskKey, str]
) -> None:
    by_name = {PLAN.wiring.namespace(task): each for task, each in committed.items()}
    current = Round(41, Fence(3, 7), by_name, winners, frozenset({"count"}), (4, 5))
    decoded = round_from_text(PLAN, round_to_text(PLAN, current))
    assert dict(decoded.committed) == by_name
    assert dict(decoded.task_winners) == winners
    assert len(decoded.committed) == len(by_name)
    assert len(decoded.task_winners) == len(winners)
    assert (decoded.txid, decoded.fence, decoded.ticks, decoded.rolled_back) == (41, (3, 7), {"count"}, (4, 5))


HAND_OFFS = st.dictionaries(st.sampled_from(list(PLAN.wiring.places)), st.builds(HandOff, ATTEMPTS, st.booleans()))


@given(st.one_of(st.none(), HAND_OFFS))
def test_each_task_finds_the_hand_offs_of_its_batch(hand_offs: dict[TaskKey, HandOff] | None) -> None:
    batch = BatchTry(TransactionAttempt(4, 1), Fence(3, 6), 3, b"metadata", hand_offs)
    decoded = round_from_text(PLAN, round_to_text(PLAN, Round(4, Fence(3, 7), batch=batch))).batch
    assert decoded is not None
    assert (None if decoded.hand_offs is None else dict(decoded.hand_offs)) == hand_offs
    assert decoded.metadata == b"metadata"


def test_a_thousand_hand_offs_take_little_room() -> None:
    plan, current = plan_of(1000), Round(4, Fence(3, 6))
    tasks = list(plan.wiring.places)
    hand_offs = {task: HandOff(attempt_id(plan, current, 70 + n), False) for n, task in enumerate(tasks)}
    batch = BatchTry(TransactionAttempt(4, 1), Fence(3, 6), 3, None, hand_offs)
    assert len(round_to_text(plan, Round(4, Fence(3, 7), batch=batch))) < 2000


def test_what_the_plan_does_not_have_is_left_out() -> None:
    current = Round(1, Fence(1, 1), {"word-count:gone-0": Committed(0, "a")}, {("gone", 0): "a"})
    decoded = round_from_text(PLAN, round_to_text(PLAN, current))
    assert not decoded.committed
    assert not decoded.task_winners
    assert decoded.committed.get("word-count:count-0") is None


def test_an_attempts_id_follows_from_its_run_its_round_and_its_execution() -> None:
    rounds = [Round(1, Fence(1, seq)) for seq in (1, 2**31 - 1)]
    ids = {attempt_id(plan, each, number) for plan in (PLAN, plan_of(5)) for each in rounds for number in (5, 2**39)}
    assert len(ids) == 8
    for each in ids:
        check_attempt(each)


def test_the_attempts_of_a_partition_differ_and_stay_short() -> None:
    plan, current, tasks = plan_of(1000), Round(4, Fence(3, 6)), 1000
    names = {
        (component, index): attempt_id(plan, current, 70 + index, position)
        for position, component in enumerate(("split", "count"))
        for index in range(tasks)
    }
    assert len(set(names.values())) == 2 * tasks
    for each in names.values():
        check_attempt(each)
    check_attempt(attempt_id(plan, current, 70, 1000))
    batch = BatchTry(
        TransactionAttempt(4, 1), Fence(3, 6), 3, None, {task: HandOff(name, False) for task, name in names.items()}
    )
    assert len(round_to_text(plan, Round(4, Fence(3, 7), batch=batch))) < 2000


@pytest.mark.parametrize(
    ("active", "most_bytes"), [(1.0, 500), (0.0, 500), (0.5, 1400), (0.05, 3200)], ids=["all", "none", "half", "few"]
)
def test_a_thousand_tasks_take_a_few_bits_each(active: float, most_bytes: int) -> None:
    """The share of tasks that change state in a wave is `active`; after a hundred waves."""
    plan, random = plan_of(1000), Random(5)
    executions = count(1)
    committed: dict[str, Committed] = {}
    winners: dict[TaskKey, str] = {}
    for txid in range(100 if active else 1):
        current = Round(txid, Fence(2, 3 * txid + 1), committed, winners)
        next(executions)  # the spout's
        attempts = {task: attempt_id(plan, current, next(executions)) for level in plan.wiring.levels for task in level}
        winners = {task: attempts[task] for task in plan.wiring.namespaces.values()}
        changed = [name for name in plan.wiring.namespaces if random.random() < active]
        committed = {**committed, **{name: Committed(txid, attempts[plan.wiring.namespaces[name]]) for name in changed}}
    assert len(plan.wiring.namespaces) == 1000
    assert len(round_to_text(plan, Round(100, Fence(2, 400), committed, winners))) < most_bytes
