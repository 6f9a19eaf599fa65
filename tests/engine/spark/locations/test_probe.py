"""The check of a run's places on executors: in seconds, with the settings of the user's own session."""

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.bolts import ParquetSink
from anchorbolt.config import Secret
from anchorbolt.engine.driver.places import check_places
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.probe import run_probe
from anchorbolt.engine.spark.session import engine_session
from anchorbolt.errors import LocationUnavailable
from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations, quick_locations
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, kept_in, word_count
from tests.engine.spark.locations.conftest import hadoop_settings
from tests.servers.s3_server import S3Server


def plan_below(folder: Path, **conf: Any) -> ExecutionPlan:
    settings = {**kept_in(folder), **conf}
    return prepare_plan(word_count(feeder("a"), ParquetSink(str(folder / "out"))), settings)


def test_every_task_says_what_it_found_in_every_place(spark: SparkSession, tmp_path: Path) -> None:
    plan = plan_below(tmp_path)
    found = list(run_probe(spark, plan, [plan.checkpoint_location, str(tmp_path)], ".probe", b"x"))
    assert len(found) == 2 * spark.sparkContext.defaultParallelism
    assert all("not shared" in each.problem for each in found)
    check_places(plan, lambda *check: run_probe(spark, plan, *check))
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.fixture
def users_session(spark: SparkSession) -> SparkSession:
    """A session on which settings were set while it ran; it shares Spark with the other tests."""
    session = spark.newSession()
    session.conf.set("fs.s3a.access.key", "mine")
    session.conf.set("fs.s3a.secret.key", "geheim")
    session.conf.set("dfs.http.policy", "HTTPS_ONLY")
    session.conf.set("spark.sql.shuffle.partitions", "7")
    return session


def test_settings_of_hadoop_that_were_set_on_the_session_are_the_engines_too(users_session: SparkSession) -> None:
    session = engine_session(users_session)
    configuration = Hadoop(session).configuration
    assert configuration.get("fs.s3a.access.key") == "mine"
    assert configuration.get("dfs.http.policy") == "HTTPS_ONLY"
    [(_, store)] = HadoopLocations(session).for_workers(["s3a://bucket/a"]).stores
    assert dict(store.options)["secret_key"] == Secret("geheim")


def test_other_settings_of_the_session_stay_there(users_session: SparkSession) -> None:
    session = engine_session(users_session)
    assert session.conf.get("spark.sql.shuffle.partitions") != "7"
    assert users_session.conf.get("spark.sql.adaptive.enabled") == "true"


BUCKET = "quick"


@pytest.fixture(scope="module")
def overloaded() -> Iterator[str]:
    """An S3 that answers each request that it has too many."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.send_response(503)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = answer  # noqa: N815 - names of the base class

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "overloaded"])
def test_an_s3_that_does_not_answer_is_waited_for_as_long_as_is_set(
    request: pytest.FixtureRequest, spark: SparkSession, s3: S3Server, endpoint: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = endpoint if "://" in endpoint else request.getfixturevalue(endpoint)
    # The settings of the bucket count more than those of all buckets: also of those that say how long to wait.
    patience = {f"fs.s3a.bucket.{BUCKET}.retry.limit": "9", f"fs.s3a.bucket.{BUCKET}.endpoint": address}
    conf = {"topology.checkpoint.location": f"s3a://{BUCKET}/a", "topology.message.timeout.secs": 2}
    with hadoop_settings(spark, patience):
        plan = prepare_plan(
            word_count(feeder("a")), conf, memory=MemoryStateProvider(), locations=HadoopLocations(spark)
        )
        began = time.monotonic()
        with quick_locations(spark) as locations, pytest.raises(LocationUnavailable, match="cannot be written"):
            check_places(plan, None, locations)
        assert time.monotonic() - began < 20, "Hadoop itself waits for minutes"
        assert "waiting for the file system" in caplog.text
        left = Hadoop(spark).file_system(f"s3a://{BUCKET}/a").getConf()
        assert left.get(f"fs.s3a.bucket.{BUCKET}.retry.limit") == "9"


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["s3a", "hdfs"])
def test_a_server_that_accepts_a_connection_and_says_nothing_is_given_up_on(
    spark: SparkSession, s3: S3Server, scheme: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        place = f"s3a://{BUCKET}/a" if scheme == "s3a" else f"hdfs://{address}/a"
        with hadoop_settings(spark, {f"fs.s3a.bucket.{BUCKET}.endpoint": f"http://{address}"}):
            began = time.monotonic()
            with quick_locations(spark) as locations, pytest.raises(OSError, match=r"(?i)timeout"):
                locations.open(place).exists("a")
            assert time.monotonic() - began < 30, "Hadoop itself waits for minutes"
