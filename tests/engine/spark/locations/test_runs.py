"""Runs whose checkpoint location, sink and input are on a real HDFS or a real S3."""

import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import ParquetSink
from anchorbolt.engine import SparkCluster
from anchorbolt.errors import ConfigError, FaultInjected, LocationUnavailable, WaveFailed
from anchorbolt.files import Folder, join
from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import FaultPoint
from tests.engine.conftest import Watch
from tests.engine.jobs import Strikes, word_count
from tests.engine.spark.locations.conftest import hadoop_settings
from tests.servers.hdfs_server import HdfsServer

LINES = ("a b a", "c a", "b b d", "a")


class Job:
    """A word count below one location: its input, its checkpoint location and its sink."""

    def __init__(self, spark: SparkSession, below: str, state: Path) -> None:
        self._spark = spark
        self.below = below
        self._state = state
        self.folder: Folder = HadoopLocations(spark).open(below)
        self._lines: list[str] = []

    def add(self, *lines: str) -> None:
        """Add an input file for each line."""
        for line in lines:
            self._lines.append(line)
            self.folder.replace(f"in/{len(self._lines):04d}.txt", f"{line}\n".encode())

    def run(self, **more: Any) -> Any:
        """Run the job on all its input."""
        place = join(self.below, "in")
        spout = StreamSpout(lambda spark: spark.readStream.option("maxFilesPerTrigger", 1).text(place), ["sentence"])
        topology = word_count(spout, ParquetSink(join(self.below, "out")))
        conf = {
            "topology.state.provider": "sqlite",
            "topology.state.provider.config": {"directory": str(self._state)},
            "topology.checkpoint.location": join(self.below, "checkpoint"),
            "topology.state.checkpoint.interval.ms": 100,
            **more,
        }
        handle = SparkCluster(self._spark).submit(topology, conf, until_empty=True)
        assert handle.await_termination(240)
        return handle

    def check(self, handle: Any) -> None:
        """Check that each word counts once, and that each count is one row."""
        counts = Counter(word for line in self._lines for word in line.split())
        assert handle.state("count") == counts
        rows = self._spark.read.parquet(join(self.below, "out")).collect()
        expected = Counter((word, number + 1) for word, count in counts.items() for number in range(count))
        assert Counter((row["word"], row["count"]) for row in rows) == expected
        assert list(self.folder.names("out")) == [name for name in self.folder.names("out") if name.endswith("parquet")]


MakeJob = Callable[[str], Job]


@pytest.fixture
def make_job(spark: SparkSession, tmp_path: Path) -> MakeJob:
    return lambda below: Job(spark, below, tmp_path / "state")


@pytest.fixture(params=["hdfs", "s3"])
def job(request: pytest.FixtureRequest, make_job: MakeJob) -> Job:
    server = request.getfixturevalue(request.param)
    return make_job(join(server.uri if request.param == "hdfs" else server.new_bucket(), uuid.uuid4().hex))


def test_a_run_resumes_there_and_publishes_what_a_crash_left(job: Job, watch: Watch) -> None:
    job.add(*LINES[:2])
    watch(Strikes(FaultPoint.SINK_PUBLISHING, txid=1))
    with pytest.raises(FaultInjected):
        job.run()
    job.add(*LINES[2:])
    handle = job.run()
    assert handle.recovery.action == "rolled forward"
    job.check(handle)


@pytest.mark.thorough
def test_an_input_file_that_is_gone_after_a_restart_is_refused(job: Job, watch: Watch) -> None:
    job.add(*LINES[:1])
    watch(Strikes(FaultPoint.ROUND_ENDED, txid=0, times=9))
    with pytest.raises(FaultInjected):
        job.run()
    job.folder.remove_tree("in/0001.txt")
    with pytest.raises(WaveFailed, match=r"0001\.txt"):
        job.run()


@pytest.mark.thorough
def test_paths_are_on_the_default_file_system_as_sparks_own_are(
    spark: SparkSession, hdfs: HdfsServer, make_job: MakeJob
) -> None:
    with hadoop_settings(spark, {"fs.defaultFS": hdfs.uri}):
        job = make_job(f"/{uuid.uuid4().hex}")
        job.add(*LINES[:2])
        job.run()
        job.add(*LINES[2:])
        job.check(job.run())
    assert HadoopLocations(spark).open(hdfs.uri + job.below).exists("checkpoint/metadata")
    assert not Path(job.below).exists()


def test_a_sink_on_another_file_system_is_refused_before_anything_is_claimed(
    spark: SparkSession, hdfs: HdfsServer, make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job(join(hdfs.uri, uuid.uuid4().hex))
    job.add(LINES[0])
    with pytest.raises(ConfigError):
        job.run(**{"topology.checkpoint.location": str(tmp_path / "checkpoint")})
    assert not (tmp_path / "checkpoint").exists()
    assert not (tmp_path / "state").exists()


def test_a_place_that_does_not_answer_is_refused(make_job: MakeJob, spark: SparkSession) -> None:
    quick = {"ipc.client.connect.max.retries": "0", "ipc.client.connect.retry.interval": "1"}
    with hadoop_settings(spark, quick):
        job = make_job("hdfs://127.0.0.1:1/none")
        with pytest.raises(LocationUnavailable, match="cannot be written"):
            job.run(**{"topology.message.timeout.secs": 2})


def test_a_scheme_that_spark_does_not_know_is_refused(make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job(str(tmp_path))
    with pytest.raises(ConfigError):
        job.run(**{"topology.checkpoint.location": "oss://bucket/checkpoint"})
