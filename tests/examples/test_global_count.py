"""`examples/global_count`: both topologies on a real Redis, on both engines, and under kills."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import StateError
from anchorbolt.testing import CrashRunner, Fault, FaultPoint, LocalCluster
from tests.cli.command import ROOT, Command
from tests.conftest import StartRedis
from tests.examples.conftest import EXAMPLES, LoadJob
from tests.servers.redis_server import DURABLE, RedisServer

KEY = "global-count"


def add_entries(client: Any, count: int, streams: list[str]) -> None:
    for number in range(count):
        client.xadd(streams[number % len(streams)], {"text": f"sentence {number}"})


def conf_of(server: RedisServer) -> dict[str, Any]:
    return {"redis.host": server.host, "redis.port": server.port}


def test_each_entry_counts_once_outside_and_in_the_state_over_several_runs(
    load_job: LoadJob, redis_database: RedisServer
) -> None:
    job, cluster, entries = load_job("global_count"), LocalCluster(), 0
    with redis_database.client() as client:
        for added in (510, 0, 7):
            add_entries(client, added, job.STREAMS)
            entries += added
            outside = cluster.submit(job.topology(conf_of(redis_database)))
            inside = cluster.submit(job.stateful_topology(conf_of(redis_database)))
            assert outside.await_termination(60)
            assert inside.await_termination(60)
            assert json.loads(client.get(KEY))[0] == entries
            assert inside.state("sum") == {"count": entries}
        assert json.loads(client.get(KEY)) == [517, 4], "three batches, then one"


def test_a_count_of_another_history_is_refused_and_stays(load_job: LoadJob, redis_database: RedisServer) -> None:
    job = load_job("global_count")
    with redis_database.client() as client:
        client.set(KEY, json.dumps([70, 9]))
        add_entries(client, 1, job.STREAMS)
        handle = LocalCluster().submit(job.topology(conf_of(redis_database)))
        with pytest.raises(StateError):
            handle.await_termination(60)
        assert json.loads(client.get(KEY)) == [70, 9]


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "faults"),
    [
        (
            "topology",
            [
                Fault(FaultPoint.TASK_PREPARED, component="sum", txid=2, nth=2),  # in the commit phase, with the count
                Fault(FaultPoint.BATCH_PROCESSED, txid=3),  # the driver
            ],
        ),
        (
            "stateful_topology",
            [
                Fault(FaultPoint.METADATA_STORED, txid=2),
                Fault(FaultPoint.SEALED, component="sum", txid=3),
                Fault(FaultPoint.DECIDED, txid=4),
            ],
        ),
    ],
)
def test_on_spark_with_killed_workers_and_drivers_each_entry_counts_once(
    start_redis: StartRedis, load_job: LoadJob, tmp_path: Path, name: str, faults: list[Fault]
) -> None:
    server = start_redis(**DURABLE)
    folder = tmp_path / "run"
    conf = {**conf_of(server), "topology.max.spout.pending": 2}
    job = f"{EXAMPLES / 'global_count' / 'job.py'}:{name}"
    runner = CrashRunner(job, folder, conf=conf, arguments=["--master", "local[2]"])
    with server.client() as client:
        add_entries(client, 1003, load_job("global_count").STREAMS)
        report = runner.run(*faults)
        assert report.struck == report.faults
        if name == "topology":
            assert json.loads(client.get(KEY)) == [1003, 6]
    if name == "stateful_topology":
        scan = [sys.executable, "-m", "anchorbolt", "state", "scan", "global-count-in-state:sum-0"]
        with closing(Command(scan, directory=folder, env={"PYTHONPATH": str(ROOT)})) as command:
            assert (command.end(), command.out) == (0, "'count': 1003\n"), repr(command)
