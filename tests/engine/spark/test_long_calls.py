"""A call of a bolt in a worker that does not return is known on the driver, with where it is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.intake.server import CallServer
from anchorbolt.serialization import pack
from tests.cli.command import wait_until
from tests.engine.jobs import one_bolt, text_spout, write_lines
from tests.engine.spark.test_spark_cluster import conf_in


class WaitsForFile(BaseBasicBolt):
    def __init__(self, file: str) -> None:
        self.file = file

    def execute(self, tup: Any, collector: Any) -> None:
        if tup[0] == "wait":
            self.wait_for_somebody()

    def wait_for_somebody(self) -> None:
        wait_until(Path(self.file).exists, "the file", 120)


@pytest.mark.thorough
def test_the_driver_knows_the_task_that_does_not_return_until_it_does(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "released"
    lines = write_lines(tmp_path / "lines", [["a", "wait"]])
    topology = one_bolt(WaitsForFile(str(file)), text_spout(lines))
    handle = SparkCluster(spark).submit(topology, conf_in(tmp_path), until_empty=True)
    try:
        wait_until(lambda: bool(handle.observe().long_calls), "a call that does not return", 120)
        (call,) = handle.observe().long_calls
        assert handle.observe().unended_tasks == [("bolt", 0)]
    finally:
        file.touch()
    assert (call.kind, call.component, call.task_index, call.method) == ("bolt", "bolt", 0, "execute")
    assert call.seconds >= 2
    assert "in wait_for_somebody" in call.stack
    assert "anchorbolt/engine" not in call.stack
    assert handle.await_termination(120)
    wait_until(lambda: not handle.observe().long_calls, "no call", 30)


def test_of_a_task_the_worker_that_told_last_counts() -> None:
    conf = SimpleNamespace(get=lambda key: None)
    with closing(CallServer(Mock(sparkContext=Mock(getConf=lambda: conf)))) as server:
        for worker, seconds in (("killed", 16.0), ("next", 2.0)):
            call = ["bolt", "count", 1, "execute", seconds, "here"]
            assert list(server.answers(pack([worker, [call]]))) == []
        [call] = server.calls()
    assert call[:3] == ("bolt", "count", 1)
    assert 2 <= call.seconds < 10
