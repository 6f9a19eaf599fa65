"""The bolts of a simulated transactional topology. What they see, they tell the world, which checks it.

Every instance of the first bolt marks the rows of its batch with a number of its own. So rows that come from different
attempts of it can be told apart wherever they meet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NoReturn

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, BasicOutputCollector, FailedException, OutputCollector
from anchorbolt.bolts.batch import BaseBatchBolt, BaseTransactionalBolt, BatchOutputCollector, Committer
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.transactional import OpaqueMap, TransactionalMap
from tests.simulation.transactional.spouts import world_of

SIZE = "#"
"""Key under which a task keeps how many rows it has; it knows that from a field, too, which must never be stale."""
BATCH = "batch"
"""Key under which a task keeps what the committers told of the last batch."""
GROUPS = 3


class _BatchBolt(BaseBatchBolt):
    """An instance keeps the rows of its batch, and the configuration: that is not pickled with it."""

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchOutputCollector, id: Any
    ) -> None:
        self.conf, self.collector, self.context = conf, collector, context
        self.id: TransactionAttempt = id
        self.rows: list[int] = []
        self.marks: set[int] = set()

    def execute(self, tup: Tuple) -> None:
        assert tup[0] == self.id
        self.rows += tup["rows"]
        self.marks.add(tup["mark"])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "rows", "mark")

    @property
    def name(self) -> str:
        return f"{self.context.this_component_id}-{self.context.this_task_index}"

    def finishes(self) -> None:
        """Have the world check that the batch is in its commit phase, and that it is all here."""
        world = world_of(self.conf)
        world.checks.finishing(self.id, self.name)
        world.checks.complete(self.id, self.rows, self.name)
        world.may_fail(self.name)


class Mark(_BatchBolt):
    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchOutputCollector, id: Any
    ) -> None:
        super().prepare(conf, context, collector, id)
        self.mark = world_of(conf).next_mark()

    def execute(self, tup: Tuple) -> None:
        world = world_of(self.conf)
        world.checks.sees(tup[0], tup["row"])
        if tup["row"] == world.source.poison:
            raise FailedException("simulated: poison")
        self.collector.emit((self.id, tup["row"], self.mark))

    def finish_batch(self) -> None:
        world_of(self.conf).may_fail(self.name)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "row", "mark")


class Pass(BaseBasicBolt):
    """Between two batch bolts."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.world = world_of(conf)

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.world.may_fail("pass")
        collector.emit((tup[0], [tup["row"]], tup["mark"]))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("tx", "rows", "mark")


class Partial(_BatchBolt):
    """Collects the rows of a batch, and sends them at its end, in the processing phase."""

    def finish_batch(self) -> None:
        for mark in self.marks:
            self.collector.emit((self.id, self.rows, mark))
        world_of(self.conf).may_fail(self.name)


class Sum(_BatchBolt, Committer):
    """Its instance is kept for the commit phase. It also emits in the processing phase."""

    def execute(self, tup: Tuple) -> None:
        super().execute(tup)
        self.collector.emit((self.id, tup["rows"], tup["mark"]), stream="executed")

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        super().declare_output_fields(declarer)
        declarer.declare_stream("executed", "tx", "rows", "mark")

    def finish_batch(self) -> None:
        self.finishes()
        for mark in self.marks:
            self.collector.emit((self.id, sorted(self.rows), mark))


class _Connection:
    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be pickled")


class Keep(_BatchBolt, Committer):
    """Its tuples are kept for the commit phase, since it holds a connection."""

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchOutputCollector, id: Any
    ) -> None:
        super().prepare(conf, context, collector, id)
        self.connection = _Connection()

    def finish_batch(self) -> None:
        self.finishes()
        for mark in self.marks:
            self.collector.emit((self.id, sorted(self.rows), mark))


class Below(_BatchBolt):
    """Below committers: takes a batch in the processing phase, and from each committer in the commit phase."""

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchOutputCollector, id: Any
    ) -> None:
        super().prepare(conf, context, collector, id)
        self.told: defaultdict[str, list[int]] = defaultdict(list)

    def execute(self, tup: Tuple) -> None:
        if tup.source_component == "pass":
            super().execute(tup)
        else:
            assert tup[0] == self.id
            self.told[f"{tup.source_component} {tup.source_stream}"] += tup["rows"]
            self.marks.add(tup["mark"])

    def finish_batch(self) -> None:
        self.finishes()
        world_of(self.conf).checks.agree(self.id, self.rows, self.marks, self.told)
        for mark in self.marks:
            self.collector.emit((self.id, sorted(self.rows), mark))


class Tail(_BatchBolt):
    """Chained to a committer: takes a batch from it in both phases."""

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: BatchOutputCollector, id: Any
    ) -> None:
        super().prepare(conf, context, collector, id)
        self.executed: list[int] = []

    def execute(self, tup: Tuple) -> None:
        if tup.source_stream == "executed":
            assert tup[0] == self.id
            self.executed += tup["rows"]
        else:
            super().execute(tup)

    def finish_batch(self) -> None:
        self.finishes()
        world_of(self.conf).checks.complete(self.id, self.executed, self.name)


class Outside(_BatchBolt, BaseTransactionalBolt, Committer):
    """Counts rows by group in an outside store."""

    def finish_batch(self) -> None:
        self.finishes()
        world = world_of(self.conf)
        backing = world.outside_store
        groups = sorted({row % GROUPS for row in self.rows})
        counts = {group: _plus(sum(row % GROUPS == group for row in self.rows)) for group in groups}
        values = (
            OpaqueMap(backing, journal="journal")
            if world.batch_scenario.takes_opaque_map
            else TransactionalMap(backing)
        )
        values.multi_update(self.id.txid, counts)
        world.may_fail(self.name)


def _plus(number: int) -> Any:
    return lambda old: (old or 0) + number


class Count(BaseStatefulBolt[KeyValueState[Any, Any]], Committer):
    """Counts each row in its state, and stores what the bolts above it told of the batch."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.world, self.context = world_of(conf), context
        self.told: dict[str, Any] = {}

    def init_state(self, state: KeyValueState[Any, Any]) -> None:
        self.state = state
        self.size = state.get(SIZE, [0])[0]

    def execute(self, tup: Tuple) -> None:
        txid, source = tup[0].txid, tup.source_component
        if source != "mark":
            self.told[source] = [sorted(tup["rows"]), tup["mark"]]
            return
        row = tup["row"]
        count = self.state.get(row, [0])[0]
        self.size += 1
        self.state.put(row, [count + 1, txid, tup["mark"]])
        self.state.put(SIZE, [self.size])

    def finish_batch(self) -> None:
        self.world.may_fail("count")
        if self.told:
            self.state.put(BATCH, self.told)
            self.told = {}
