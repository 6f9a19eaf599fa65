"""How many bytes a wave takes besides its data, by the real encoders; executions are numbered as on Spark."""

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.local import levels
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_task
from anchorbolt.engine.task.messages import Envelope, TuplesMessage, decode_message
from anchorbolt.engine.task.round_text import attempt_id, round_from_text, round_to_text
from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.topology import Topology
from tests.engine.jobs import CountWords, Scale, SplitSentence, Total, chain, feeder, run

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

    def run_task(
        self, plan: ExecutionPlan, task: TaskKey, current: Round, registry: Any, envelopes: Any
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
        level, partition = plan.wiring.places[task]
        # Spark's tasks run side by side; with two cores, neighbours change places now and then.
        execution = self._first + sum(map(len, plan.wiring.levels[: level - 1])) + (partition ^ (partition % 7 == 3))
        attempt = attempt_id(plan, current, execution)
        for sent in run_bolt_task(plan, task, self._round, registry, envelopes, attempt):
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
    monkeypatch.setattr(levels, "run_bolt_task", traffic.run_task)
    monkeypatch.setattr(DecisionRecord, "encode", lambda record: traffic.encode(record))
    run(LocalCluster(), four_bolts(tasks))
    for number, wave in enumerate(traffic.waves):
        control = wave.total() - wave["data"]
        print(f"{tasks} tasks, wave {number}: {control:,} bytes of {dict(wave)}")
        assert 0 < control <= most_bytes
    assert len(traffic.waves) == 3


def test_the_plan_that_each_task_gets_is_as_long_with_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[int, int] = {}

    def run_task(plan: ExecutionPlan, *arguments: Any) -> Iterator[Envelope]:
        pickled = plan.pickled("provider")
        sizes.setdefault(len(plan.wiring.tasks["count"]), len(pickled))
        copied: ExecutionPlan = pickle.loads(pickled)  # noqa: S301 - made above
        assert (copied.wiring.places, copied.wiring.namespaces, copied.wiring.task_ids) == (
            plan.wiring.places,
            plan.wiring.namespaces,
            plan.wiring.task_ids,
        )
        return run_bolt_task(plan, *arguments)

    monkeypatch.setattr(levels, "run_bolt_task", run_task)
    for tasks in (2, 64):
        run(LocalCluster(), four_bolts(tasks))
    assert sizes[64] <= sizes[2] + 16
