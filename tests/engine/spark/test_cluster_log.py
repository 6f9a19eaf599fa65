"""`anchorbolt run --log-format json` on a cluster: what workers log is in the executors' files, as events."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Command, run_arguments
from tests.servers.redis_server import RedisServer
from tests.servers.spark_standalone import SparkStandalone, bare_python

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

TUPLES = 2000

JOB = f"""
import logging
import warnings
from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder

class Talk(BaseBasicBolt):
    def execute(self, tup, collector):
        logging.getLogger("mine").warning("again and again", extra={{"order": 7}})
        if tup["number"] == 1:
            try:
                1 / 0
            except ZeroDivisionError:
                logging.getLogger("mine").exception("divided")
            warnings.warn("careful")

def topology():
    builder = TopologyBuilder()
    builder.set_spout("numbers", GeneratorSpout(["number"], lambda number: (number,), count={TUPLES}))
    builder.set_bolt("talk", Talk(), parallelism=2).shuffle_grouping("numbers")
    return builder.create_topology("talking")
"""


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_workers_log_events_with_their_topology_wave_component_and_task_and_repeats_once(
    cluster: SparkStandalone, tmp_path: Path, redis_database: RedisServer
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    pool = f"{{host: {redis_database.host}, port: {redis_database.port}}}"
    settings = {
        "topology.state.provider": "redis",
        "topology.state.provider.config.jedisPoolConfig": pool,
        "topology.checkpoint.location": tmp_path / "checkpoint",
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    arguments = ["job.py:topology", "--master", cluster.url, "--until-empty", "--log-format", "json", *options]
    env = {"PYSPARK_PYTHON": str(bare_python(tmp_path))}
    with closing(Command(run_arguments(*arguments), directory=tmp_path, env=env)) as command:
        assert command.end() == 0, repr(command)
        own = events(command.err)
        assert len(own) == len(command.err.splitlines()), "the driver's standard error holds events only"
        assert {event["topology"] for event in own if event["logger"] == "anchorbolt.run"} == {"talking"}
    logs = [path.read_text() for path in tmp_path.glob("work*/app-*/*/stderr")]
    assert len(logs) == 2
    of_workers = [event for log in logs for event in events(log)]
    ours = [event for event in of_workers if event["logger"] in ("mine", "py.warnings")]
    assert {event["topology"] for event in ours} == {"talking"}
    assert {event["component"] for event in ours} == {"talk"}
    assert {event["task"] for event in ours} == {0, 1}
    assert all(isinstance(event["txid"], int) for event in ours)
    [divided] = [event for event in ours if event["message"] == "divided"]
    assert (divided["level"], divided["traceback"].endswith("ZeroDivisionError: division by zero")) == ("ERROR", True)
    assert any("careful" in event["message"] for event in ours)
    repeated = [event for event in ours if event["message"] == "again and again"]
    assert {event["order"] for event in repeated} == {7}
    assert len(repeated) < TUPLES / 20
