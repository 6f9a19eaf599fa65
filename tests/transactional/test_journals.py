"""Another parallelism of a committer whose tasks keep journals."""

from typing import Any

import pytest

from anchorbolt.errors import AnchorboltError, TopologyError
from anchorbolt.testing import LocalCluster
from anchorbolt.transactional import (
    BaseTransactionalBolt,
    Committer,
    OpaqueMap,
    OpaqueMemoryTransactionalSpout,
    TransactionalMap,
    TransactionalTopologyBuilder,
)
from tests.engine.jobs import BasicBolt

TABLE: dict[Any, Any] = {}


class Table:
    def multi_get(self, keys: Any) -> list[Any]:
        return [TABLE.get(key) for key in keys]

    def multi_put(self, keys: Any, values: Any) -> None:
        TABLE.update(zip(keys, values, strict=True))


class Count(BaseTransactionalBolt, Committer):
    """Counts words in the table; raises when it has done so, in the batch `dies_at`."""

    def __init__(self, kind: str, dies_at: int) -> None:
        self.kind, self.dies_at = kind, dies_at

    def prepare(self, conf: Any, context: Any, collector: Any, attempt: Any) -> None:
        self.attempt, self.words, self.index = attempt, dict[str, int](), context.this_task_index

    def execute(self, tup: Any) -> None:
        self.words[tup[1]] = self.words.get(tup[1], 0) + 1

    def finish_batch(self) -> None:
        counts: Any = OpaqueMap(Table(), journal=f"journal-{self.index}")
        if self.kind == "transactional":
            counts = TransactionalMap(Table())
        functions = {word: lambda old, n=count: (old or 0) + n for word, count in self.words.items()}
        counts.multi_update(self.attempt.txid, functions)
        if self.attempt.txid == self.dies_at:
            raise ValueError("the database is away")

    def declare_output_fields(self, declarer: Any) -> None:
        pass


class Words(BasicBolt):
    fields = ("tx", "word")

    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup[0], tup[1]))


def run(
    cluster: LocalCluster,
    parallelism: int,
    kind: str = "opaque",
    dies_at: int = 0,
    ends: bool = True,
    is_away: bool = False,
) -> None:
    words = [(word,) for word in "abcabd"]
    spout = OpaqueMemoryTransactionalSpout({0: words}, ["word"], 3)
    if is_away:
        spout.disabled_partitions.add(0)
    builder = TransactionalTopologyBuilder("journals", "words", spout)
    builder.set_bolt("copy", Words()).shuffle_grouping("words")
    builder.set_bolt("count", Count(kind, dies_at), parallelism).fields_grouping("copy", "word")
    handle = cluster.submit(builder.build_topology(), {"topology.max.batch.retries": 0})
    if ends:
        handle.await_termination(60)
    else:
        with pytest.raises(AnchorboltError):
            handle.await_termination(60)


@pytest.fixture(autouse=True)
def _empty() -> None:
    TABLE.clear()


def counts() -> dict[str, int]:
    return {key: value[0] for key, value in TABLE.items() if not key.startswith("journal")}


@pytest.mark.parametrize("dies_at", [1, 2])
@pytest.mark.parametrize("tasks", [1, 3])
def test_it_is_refused_while_a_batch_may_be_half_committed(dies_at: int, tasks: int) -> None:
    cluster = LocalCluster()
    run(cluster, 2, dies_at=dies_at, ends=False)
    with pytest.raises(TopologyError) as refused:
        run(cluster, tasks)
    assert refused.value.component == "count"
    run(cluster, 2)
    assert counts() == {"a": 2, "b": 2, "c": 1, "d": 1}
    run(cluster, tasks)


@pytest.mark.parametrize("dies_at", [1, 2])
def test_it_is_refused_after_a_run_whose_source_was_away(dies_at: int) -> None:
    cluster = LocalCluster()
    run(cluster, 2, dies_at=dies_at, ends=False)
    run(cluster, 2, is_away=True)
    with pytest.raises(TopologyError):
        run(cluster, 3)
    run(cluster, 2)
    assert counts() == {"a": 2, "b": 2, "c": 1, "d": 1}
    run(cluster, 3)


def test_it_is_accepted_if_no_journal_is_kept() -> None:
    cluster = LocalCluster()
    run(cluster, 2, "transactional", dies_at=2, ends=False)
    run(cluster, 3, "transactional")
    assert counts() == {"a": 2, "b": 2, "c": 1, "d": 1}


def test_a_run_that_dies_behind_a_change_is_judged_by_its_own_parallelism() -> None:
    cluster = LocalCluster()
    run(cluster, 2)
    TABLE.clear()
    other = LocalCluster()
    run(other, 3, dies_at=2, ends=False)
    with pytest.raises(TopologyError):
        run(other, 2)
    run(other, 3)
    assert counts() == {"a": 2, "b": 2, "c": 1, "d": 1}
