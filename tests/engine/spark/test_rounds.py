"""A failed round leaves nothing behind that a later round of the same batch is built on."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import BaseBasicBolt, BasicOutputCollector
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.task.messages import Envelope, TaskReport, encode_report, reports_in
from anchorbolt.errors import WaveFailed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.streams.tuple import Tuple
from tests.engine.jobs import word_count
from tests.engine.spark.test_spark_cluster import conf_in, run, text_spout, write_lines


class FailsOnFirstTuple(BaseBasicBolt):
    """Fails the wave of the first tuple that any instance sees; `mark` is the file by which it knows."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if not self.mark.exists():
            self.mark.touch()
            raise RuntimeError("the first tuple")


def test_a_bolt_behind_a_stateful_one_that_fails_once_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    text = write_lines(tmp_path / "in", [["to be or not to be"]])
    handle = run(spark, word_count(text_spout(text), FailsOnFirstTuple(tmp_path / "mark")), conf_in(tmp_path))
    assert [report.rounds for report in handle.reports] == [2]
    assert handle.state("count") == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_the_report_of_an_earlier_round_is_refused() -> None:
    current = Round(txid=4, fence=Fence(1, 9))

    def envelope(seq: int) -> Envelope:
        return Envelope(0, 3, 0, encode_report(TaskReport(("count", 0), "a" * 32, seq)))

    assert [report.task for report in reports_in([envelope(9)], current)] == [("count", 0)]
    with pytest.raises(WaveFailed, match=r"'count', 0.* round 8"):
        reports_in([envelope(9), envelope(8)], current)
