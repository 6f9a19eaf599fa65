"""A real standalone cluster whose executors are lost one after the other in one wave: the run goes on."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.engine.spark.job_failures import failure_in
from anchorbolt.errors import InfrastructureLost, WaveFailed, WorkerLost
from tests.servers.redis_server import RedisServer
from tests.servers.spark_standalone import SparkStandalone
from tests.support.programs import ended
from tests.support.stores import settings_of

ROOT = Path(__file__).resolve().parents[3]

JOB = """
import json, os, signal, sys, time
from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder

master, folder, times, spark_conf, conf = *sys.argv[1:3], int(sys.argv[3]), *map(json.loads, sys.argv[4:6])


def parent_of(process):
    with open(f"/proc/{process}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


class Pass(BaseBasicBolt):
    def execute(self, tup, collector):
        collector.emit((tup["number"],))

    def declare_output_fields(self, declarer):
        declarer.declare("number")


class Count(BaseStatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        if tup["number"] == "7":
            for number in range(times):
                try:
                    os.close(os.open(f"{folder}/killed{number}", os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
                daemon = parent_of(os.getpid())  # of this worker and of those beside it
                os.kill(parent_of(daemon), signal.SIGKILL)
                time.sleep(60)  # it ends before, with its executor
        self.state.put(tup["number"], self.state.get(tup["number"], 0) + 1)


builder = TopologyBuilder()
builder.set_spout("in", StreamSpout(lambda spark: spark.readStream.text(f"{folder}/in"), ["number"]))
builder.set_bolt("pass", Pass(), parallelism=2).shuffle_grouping("in")
builder.set_bolt("count", Count(), parallelism=2).fields_grouping("pass", "number")
spark = build_session("losses", master, SparkOptions(conf=spark_conf))
handle = SparkCluster(spark).submit(builder.create_topology("losses"), conf, until_empty=True)
handle.await_termination(500)
waves = [(report.rounds, report.losses) for report in handle.reports]
print("ended:", json.dumps({"waves": waves, "state": handle.state("count")}))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkStandalone]:
    standalone = SparkStandalone(tmp_path, hosts=["127.0.0.1"])
    try:
        standalone.start()
        yield standalone
    finally:
        standalone.stop()


def run(
    cluster: SparkStandalone,
    redis: RedisServer,
    tmp_path: Path,
    times: int,
    spark_conf: dict[str, Any],
    retries: int = 3,
) -> Any:
    """Run the job, whose bolt kills so many executors; return what its driver prints."""
    (tmp_path / "losses.py").write_text(JOB)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "numbers.txt").write_text("".join(f"{number}\n" for number in range(20)))
    conf = {
        **settings_of(redis),
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
        "topology.message.timeout.secs": 300,
        "topology.max.batch.retries": retries,
    }
    arguments = [cluster.url, str(tmp_path), str(times), json.dumps(spark_conf), json.dumps(conf)]
    finished = ended(tmp_path / "losses.py", *arguments, cwd=tmp_path, PYSPARK_PYTHON=sys.executable)
    found = re.search("^ended: (.*)$", finished.stdout, re.MULTILINE)
    assert found is not None, finished.stdout + finished.stderr
    assert len(list(tmp_path.glob("killed*"))) == times
    return json.loads(found[1])


@pytest.mark.thorough
def test_more_executors_are_lost_in_a_wave_than_a_batch_is_tried_again_and_the_run_goes_on(
    cluster: SparkStandalone, tmp_path: Path, redis_database: RedisServer
) -> None:
    # Each loss ends its round: Spark itself does not try the task again. An executor takes seconds to start.
    ended = run(cluster, redis_database, tmp_path, 2, {"spark.task.maxFailures": 1}, retries=1)
    assert ended["state"] == {str(number): 1 for number in range(20)}
    [(rounds, losses)] = ended["waves"]
    assert rounds == losses + 1 == 3


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("spark_conf", [{}, {"spark.task.maxFailures": 1}], ids=["spark-tries-again", "each-a-round"])
def test_ten_executors_are_lost_one_after_the_other_in_one_wave_and_the_run_goes_on(
    cluster: SparkStandalone, tmp_path: Path, redis_database: RedisServer, spark_conf: dict[str, Any]
) -> None:
    ended = run(cluster, redis_database, tmp_path, 10, spark_conf)
    assert ended["state"] == {str(number): 1 for number in range(20)}
    [(rounds, losses)] = ended["waves"]
    assert rounds == losses + 1 > 1


ABORTED = "Job aborted due to stage failure: "
FAILED_4_TIMES = "Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 7) (h): "
TRACEBACK = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "source.py", line 9, in read
"""
STACK = "\n\tat org.apache.spark.rpc.Dispatcher.postMessage(Dispatcher.scala:176)\n\t... 3 more\n\nDriver stacktrace:"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", WorkerLost),
        ("org.apache.spark.SparkException: Exception thrown in awaitResult:", WaveFailed),
        (f"{TRACEBACK}ValueError: cannot parse 'MetadataFetchFailedException: Missing an output'", WaveFailed),
        (f"{TRACEBACK}anchorbolt.errors.InfrastructureLost: a worker did not get its tuples from the driver", None),
        ("ExecutorLostFailure (executor 3 exited unrelated to the running tasks) Reason: worker lost", None),
        ("FetchFailed(BlockManagerId(1, 10.0.0.7, 7337, None), shuffleId=2, message=java.io.EOFException", None),
        ("org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 2", None),
        ("TaskResultLost (result lost from block manager)", None),
        ("java.io.IOException: org.apache.spark.SparkException: Failed to get broadcast_3_piece0 of broadcast_3", None),
        ("org.apache.spark.rpc.RpcTimeoutException: Futures timed out after [120 seconds].", None),
        (
            "A shuffle map stage with indeterminate output was failed and retried. However, Spark cannot rollback the "
            "ResultStage 4 to re-process the input data",
            None,
        ),
    ],
)
def test_a_dead_worker_is_told_from_a_lost_executor_by_what_spark_says(
    said: str, kind: type[WaveFailed] | None
) -> None:
    failure = failure_in(ABORTED + FAILED_4_TIMES + said + STACK, "finish a round", 3, lambda: "a task", [])
    assert type(failure) is (kind or InfrastructureLost)
    assert failure.txid == 3
    assert not getattr(failure, "while_running", False)


@pytest.mark.parametrize("reason", ["Command exited with code 137", "Container killed by YARN for exceeding limits"])
def test_an_executor_that_may_have_ended_because_of_a_task_is_marked(reason: str) -> None:
    said = f"ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: {reason}"
    failure = failure_in(ABORTED + FAILED_4_TIMES + said + STACK, "finish a round", 3, lambda: "a task", [])
    assert isinstance(failure, InfrastructureLost)
    assert failure.while_running
    assert reason in failure.message
