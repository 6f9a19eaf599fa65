"""The word count with vectorised bolts. Apart from the others, which also run with the code of earlier commits."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from anchorbolt.bolts import ArrowOutputCollector, BaseArrowBolt, BaseStatefulArrowBolt
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import FilesTransactionalSpout, TransactionalTopologyBuilder
from benchmarks.word_count_topology import set_output
from benchmarks.workloads import TASKS, Workload

__all__ = ["vectorised_word_count_of_files"]


def vectorised_word_count_of_files(workload: Workload, text: Path, out: Path) -> Topology:
    """Return `word_count_of_files` with vectorised bolts."""
    name = f"word-count-{workload.name}"
    spout = FilesTransactionalSpout(str(text), ["sentence"], take_files=workload.files, take_bytes=None)
    builder = TransactionalTopologyBuilder(name, "sentences", spout, TASKS)
    builder.set_bolt("split", SplitBlocks(), workload.split_tasks).shuffle_grouping("sentences")
    builder.set_committer_bolt("count", CountBlocks(), workload.count_tasks).fields_grouping("split", "word")
    set_output(builder, workload, out)
    return builder.build_topology()


class SplitBlocks(BaseArrowBolt):
    """Splits lines into words."""

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        collector.emit_batch([pc.split_pattern(batch["sentence"], " ").flatten()])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(pa.schema([("word", pa.string())]))


class CountBlocks(BaseStatefulArrowBolt):
    """Counts words, and emits the new count of each distinct word of a block."""

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute_batch(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        distinct = pc.value_counts(batch["word"])
        words, counts = distinct.field("values"), distinct.field("counts")
        collector.emit_batch([words, self.counts.add_array(words, counts)])

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(pa.schema([("word", pa.string()), ("count", pa.int64())]))
