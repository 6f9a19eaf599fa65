"""Every grouping takes tuples to the tasks that its definition names, through blobs and levels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from anchorbolt.bolts import BaseRichBolt, OutputCollector
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import BoltError, TopologyError
from anchorbolt.streams import CustomStreamGrouping, GlobalStreamId, OutputFieldsDeclarer, TopologyContext, Tuple
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import NO_RETRIES, run

ROWS = [(f"k{number % 7}", number) for number in range(200)]


class Sees(BaseRichBolt):
    """Notes which task sees which tuples."""

    seen: dict[str, list[tuple[int, Any]]] = {}  # noqa: RUF012 - shared by the tasks of a test

    def __init__(self, test: str) -> None:
        self.test = test

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.index = context.this_task_index

    def execute(self, tup: Tuple) -> None:
        self.seen.setdefault(self.test, []).append((self.index, tup.values))


class LastTask(CustomStreamGrouping):
    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        self.last = target_tasks[-1]

    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        return [self.last]


def seen_by(test: str, wire: Any) -> list[tuple[int, Any]]:
    builder = TopologyBuilder()
    builder.set_spout("source", FeederSpout(["key", "number"], [ROWS]))
    wire(builder.set_bolt("sees", Sees(test), parallelism=3))
    run(LocalCluster(seed=1), builder.create_topology("groupings"))
    return Sees.seen.pop(test)


@pytest.mark.parametrize("method", ["shuffle_grouping", "none_grouping", "local_or_shuffle_grouping"])
def test_shuffling_groupings_share_tuples_out_evenly(method: str) -> None:
    seen = seen_by(method, lambda bolt: getattr(bolt, method)("source"))
    assert sorted(values for _, values in seen) == sorted(ROWS)
    assert sorted(Counter(task for task, _ in seen).values()) == [66, 67, 67]


def test_fields_grouping_takes_equal_keys_to_one_task() -> None:
    seen = seen_by("fields", lambda bolt: bolt.fields_grouping("source", "key"))
    assert sorted(values for _, values in seen) == sorted(ROWS)
    tasks = {key: {task for task, values in seen if values[0] == key} for key, _ in ROWS}
    assert all(len(found) == 1 for found in tasks.values())
    assert len(set.union(*tasks.values())) > 1


def test_partial_key_grouping_takes_equal_keys_to_at_most_two_tasks() -> None:
    seen = seen_by("partial", lambda bolt: bolt.partial_key_grouping("source", "key"))
    assert sorted(values for _, values in seen) == sorted(ROWS)
    assert all(len({task for task, values in seen if values[0] == key}) <= 2 for key, _ in ROWS)


def test_all_grouping_takes_each_tuple_to_every_task() -> None:
    seen = seen_by("all", lambda bolt: bolt.all_grouping("source"))
    assert Counter(values for _, values in seen) == dict.fromkeys(ROWS, 3)


def test_global_and_custom_grouping_take_all_tuples_to_one_task_in_their_order() -> None:
    assert seen_by("global", lambda bolt: bolt.global_grouping("source")) == [(0, row) for row in ROWS]
    assert seen_by("custom", lambda bolt: bolt.custom_grouping("source", LastTask())) == [(2, row) for row in ROWS]


class Directs(BaseRichBolt):
    """Emits each number directly to the task that the number names, counted from the last."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.collector = collector
        self.tasks = context.get_component_tasks("sees")

    def execute(self, tup: Tuple) -> None:
        task = self.tasks[-1 - tup["number"] % 3] + self.offset
        self.collector.emit_direct(task, (tup["number"],), anchors=tup, stream="direct")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare_stream("direct", "number", direct=True)


def direct_topology(test: str, offset: int = 0) -> Any:
    builder = TopologyBuilder()
    builder.set_spout("source", FeederSpout(["key", "number"], [ROWS]))
    builder.set_bolt("directs", Directs(offset), 2).shuffle_grouping("source")
    builder.set_bolt("sees", Sees(test), 3).direct_grouping("directs", stream="direct")
    return builder.create_topology("direct")


def test_direct_grouping_takes_a_tuple_to_the_task_that_the_emitter_names() -> None:
    run(LocalCluster(), direct_topology("direct"))
    seen = Sees.seen.pop("direct")
    assert sorted(values for _, values in seen) == [(number,) for _, number in ROWS]
    assert all(task == 2 - number % 3 for task, (number,) in seen)


def test_a_direct_emit_to_a_task_of_another_bolt_is_refused() -> None:
    with pytest.raises((TopologyError, BoltError), match="get_component_tasks"):
        run(LocalCluster(), direct_topology("refused", offset=50), NO_RETRIES)
