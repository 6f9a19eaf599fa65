"""A real standalone cluster runs a job although its executors lack Anchorbolt, its dependencies and the job."""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.serialization import unpack
from anchorbolt.state_backends.redis import RedisStateProvider
from tests.servers.redis_server import RedisServer
from tests.servers.spark_standalone import SparkStandalone, bare_python
from tests.support.programs import printed
from tests.support.stores import settings_of

ROOT = Path(__file__).resolve().parents[3]
LINES = [f"alpha beta w{number} gamma dog w{number % 3}" for number in range(60)]

JOB = """
import os, signal
from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, ParquetSink
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder
from wordjob.words import words_of


class Split(BaseBasicBolt):
    def execute(self, tup, collector):
        for word in words_of(tup["sentence"]):
            collector.emit((word,))

    def declare_output_fields(self, declarer):
        declarer.declare("word")


class Count(BaseStatefulBolt):
    def __init__(self, marker):
        self.marker = marker

    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.counts = state

    def execute(self, tup):
        count = self.counts.get(tup["word"], 0) + 1
        self.counts.put(tup["word"], count)
        if (tup["word"], count) == ("w2", 5):
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        self.collector.emit((tup["word"], count), anchors=tup)

    def declare_output_fields(self, declarer):
        declarer.declare("word", "count")


def topology(conf):
    builder = TopologyBuilder()
    source = lambda spark: spark.readStream.option("maxFilesPerTrigger", 2).text(conf["job.input"])
    builder.set_spout("sentences", StreamSpout(source, fields=["sentence"]))
    builder.set_bolt("split", Split(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(conf["job.marker"]), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", ParquetSink(conf["job.output"])).global_grouping("count")
    return builder.create_topology("standalone")
"""


def output_of(arguments: list[str], tmp_path: Path, cwd: Path) -> str:
    """Run this Python as a driver whose workers lack all dependencies; return what it printed."""
    return printed(*arguments, cwd=cwd, PYSPARK_PYTHON=str(bare_python(tmp_path)))


def test_a_package_runs_on_two_workers_and_a_task_that_spark_runs_twice_counts_once(
    cluster: SparkStandalone, tmp_path: Path, redis_database: RedisServer
) -> None:
    package = tmp_path / "job" / "wordjob"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "words.py").write_text("def words_of(line):\n    return line.split()\n")
    (package / "topology.py").write_text(JOB)
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / "in" / f"{number}.txt").write_text("\n".join(LINES[10 * number : 10 * number + 10]) + "\n")
    settings = {
        "topology.state.provider": "redis",
        "topology.state.provider.config.jedisPoolConfig.host": redis_database.host,
        "topology.state.provider.config.jedisPoolConfig.port": redis_database.port,
        "topology.checkpoint.location": tmp_path / "checkpoint",
        "job.input": tmp_path / "in",
        "job.output": tmp_path / "out",
        "job.marker": tmp_path / "killed",
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = ["-m", "anchorbolt", "run", "wordjob.topology:topology", "--master", cluster.url, "--until-empty"]
    output_of([*command, *options], tmp_path, cwd=tmp_path / "job")
    assert (tmp_path / "killed").exists(), "no worker was killed"
    provider = RedisStateProvider(redis_database.host, redis_database.port)
    counts: dict[str, int] = {}
    for task in range(2):
        with closing(provider.open(f"standalone:count-{task}")) as storage:
            assert not storage.head().attempts, "a dead attempt left something behind"
            counts |= {unpack(key): unpack(value) for page in storage.scan() for key, value in page}
    assert counts == Counter(word for line in LINES for word in line.split())


ACKERS = """
import json, sys, time
from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session, executors_of
from anchorbolt.bolts import BaseRichBolt
from anchorbolt.spouts import GeneratorSpout
from anchorbolt.topology import TopologyBuilder

master, conf = sys.argv[1], json.loads(sys.argv[2])


class Acks(BaseRichBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.ack(tup)


spark = build_session("ackers", master, SparkOptions())
deadline = time.monotonic() + 60
while executors_of(spark) < 2:
    assert time.monotonic() < deadline
    time.sleep(0.05)
builder = TopologyBuilder()
builder.set_spout("in", GeneratorSpout(["number"], lambda number: (number,), count=100))
builder.set_bolt("acks", Acks(), parallelism=2).shuffle_grouping("in")
handle = SparkCluster(spark).submit(builder.create_topology("ackers"), conf, until_empty=True)
assert handle.await_termination(120)
acked = sum(report.messages_acked.get("in", 0) for report in handle.reports)
print("ackers and acked:", handle._plan.wiring.ackers, acked)
"""


@pytest.mark.thorough
def test_by_default_there_is_an_acker_for_each_executor(
    cluster: SparkStandalone, tmp_path: Path, redis_database: RedisServer
) -> None:
    job = tmp_path / "ackers.py"
    job.write_text(ACKERS)
    conf = settings_of(redis_database) | {"topology.checkpoint.location": str(tmp_path / "checkpoint")}
    assert "ackers and acked: 2 100" in output_of([str(job), cluster.url, json.dumps(conf)], tmp_path, cwd=tmp_path)
