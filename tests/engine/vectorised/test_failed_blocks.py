"""Which tuples of a block fail, and that nothing counts twice, when a vectorised bolt raises."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anchorbolt.bolts import ArrowOutputCollector
from anchorbolt.errors import BoltError
from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.spouts.feeder import FeederSpout
from tests.engine.jobs import NO_RETRIES, finished
from tests.engine.vectorised.jobs import COUNTS, SPLITS, CountBlocks, counting
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, QueueSpout, forget, letters_in


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    forget()
    yield
    forget()


class RaisesOnSeveral(CountBlocks):
    """Counts first, then raises if its block has several tuples."""

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        super().execute_batch(batch, collector)
        if batch.num_rows > 1:
            raise ValueError("several")


def test_what_a_block_did_before_it_raised_does_not_count_if_no_tuple_is_to_blame(tmp_path: Path) -> None:
    conf = {"topology.dead.letter": str(tmp_path / "dead"), **NO_RETRIES}
    topology = counting(FeederSpout(["sentence"], [[("a b c",)]]), SPLITS["rows"](), RaisesOnSeveral(), tasks=1)
    handle = LocalCluster().submit(topology, conf)
    with pytest.raises(BoltError, match="several"):
        handle.await_termination(60)
    assert handle.state("count") == {}


@pytest.mark.parametrize("kind", COUNTS)
def test_a_poisoned_message_of_a_topology_without_ackers_is_a_dead_letter(kind: str, tmp_path: Path) -> None:
    MESSAGES.extend(enumerate([("a",), ("bad x",), ("c",)]))
    conf: dict[str, Any] = {
        "topology.acker.executors": 0,
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.max.tuple.retries": 0,
    }
    handle = finished(counting(QueueSpout("sentence"), SPLITS[kind](), COUNTS[kind]()), conf)
    assert handle.state("count") == {"a": 1, "c": 1}
    assert [each["values"] for each in letters_in(tmp_path / "dead")] == [["bad x"]]


@pytest.mark.parametrize("kind", COUNTS)
def test_a_failed_tuple_without_a_message_id_does_not_fail_the_wave(kind: str) -> None:
    MESSAGES.extend([(None, ("a",)), (None, ("fail",)), (1, ("c",))])
    handle = finished(counting(QueueSpout("sentence"), SPLITS[kind](), COUNTS[kind]()), NO_RETRIES)
    assert handle.state("count")["c"] == 1
    assert (ACKED, FAILED) == ([1], [])
