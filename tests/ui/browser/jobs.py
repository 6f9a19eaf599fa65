"""Topologies of 1, 40 and 1,000 tasks whose pages the browser opens. They run until they are stopped."""

from __future__ import annotations

import itertools
import time
from typing import Any, ClassVar

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, FailedException
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.topology import Topology, TopologyBuilder

PAUSE_S = 0.1
LEVELS, WIDTH = 6, 4  # of the topology of 1,000 tasks


class Numbers(BaseRichSpout):
    """Emits a few numbers ten times a second; messages that fail are not emitted again."""

    stable_message_ids = True

    def __init__(self, at_once: int = 20) -> None:
        self.at_once = at_once

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector
        self.task = context.this_task_index
        self.numbers = itertools.count()
        self.next_at = 0.0

    def next_tuple(self) -> None:
        if time.monotonic() < self.next_at:
            return
        self.next_at = time.monotonic() + PAUSE_S
        for number in itertools.islice(self.numbers, self.at_once):
            self.collector.emit((number,), msg_id=f"{self.task}-{number}")

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class Pass(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["number"],))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


class Refuse(Pass):
    """Fails one number of fifty."""

    def execute(self, tup: Any, collector: Any) -> None:
        if tup["number"] % 50 == 7:
            raise FailedException(f"order {tup['number']} has no customer <script>alert('not markup')</script>")
        super().execute(tup, collector)


class Count(BaseStatefulBolt[KeyValueState[int, int]]):
    """Counts numbers by their last two digits, half of them in one task. Refuses some once: a round fails each time.

    That is often enough for the latest 30 failed rounds to have one.
    """

    refused: ClassVar[set[int]] = set()

    def prepare(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector = collector

    def init_state(self, state: KeyValueState[int, int]) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        number = tup["number"]
        if number % 250 == 51 and number not in Count.refused:
            Count.refused.add(number)
            raise ValueError(f"the number {number} is refused once")
        key = number % 100 if number % 2 else 0
        self.counts.put(key, self.counts.get(key, 0) + 1)
        self.collector.emit((number,), anchors=tup)
        self.collector.ack(tup)

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("number")


def of_1() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers())
    builder.set_bolt("count", Count()).global_grouping("numbers")
    return builder.create_topology("one-task")


def of_40() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("orders", Numbers(), 2)
    builder.set_spout("returns", Numbers(5))
    builder.set_bolt("check-customer", Refuse(), 8).shuffle_grouping("orders")
    builder.set_bolt("convert-currency", Pass(), 6).shuffle_grouping("check-customer").shuffle_grouping("returns")
    builder.set_bolt("count-by-product", Count(), 12).fields_grouping("convert-currency", "number")
    builder.set_bolt("find-fraud-and-everything-else-that-is-odd", Pass(), 5).fields_grouping("orders", "number")
    report = builder.set_bolt("report", Pass(), 1).global_grouping("count-by-product")
    report.global_grouping("find-fraud-and-everything-else-that-is-odd").all_grouping("check-customer")
    builder.set_bolt("archive", Pass(), 5).none_grouping("find-fraud-and-everything-else-that-is-odd")  # chained
    return builder.create_topology("forty-tasks")


def of_1000() -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("numbers", Numbers(2), 2)
    before = ["numbers"]
    for level in range(LEVELS):
        made = [f"level-{level}-part-{part}" for part in range(WIDTH)]
        for part, name in enumerate(made):
            bolt: Any = Count() if level == LEVELS - 1 else Refuse() if level == 0 else Pass()
            declared = builder.set_bolt(name, bolt, 41 if level < 5 else 44)
            sources = {before[part % len(before)], before[(part + level % 2) % len(before)]}
            for source in sorted(sources):
                declared.fields_grouping(source, "number")
        before = made
    return builder.create_topology("a-thousand-tasks")


TOPOLOGIES = {1: of_1, 40: of_40, 1000: of_1000}
