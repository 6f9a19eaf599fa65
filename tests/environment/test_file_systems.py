"""The HDFS and the S3 of the tests, as Spark's own client finds them: they keep what they must, and end when told."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import StartHdfs, StartS3
from tests.environment.test_servers import is_running
from tests.servers.hdfs_server import DATA_NODE, NAME_NODE

pytestmark = pytest.mark.thorough

# A program of its own, because a session of Spark keeps Hadoop's settings of its first use.
CLIENT = """
import json, sys
from pyspark.sql import SparkSession

settings, action, uri = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
if action == "write":
    spark.range(10).coalesce(1).write.parquet(uri)
print("rows:", spark.read.parquet(uri).count())
spark.stop()
"""


def rows_of(tmp_path: Path, hadoop_conf: dict[str, str], action: str, uri: str, jars: str = "") -> int:
    """Run Spark with this configuration; return how many rows it reads from `uri`, after it wrote 10 if it should."""
    settings = {f"spark.hadoop.{name}": value for name, value in hadoop_conf.items()}
    if jars:
        settings["spark.jars"] = jars
    program = tmp_path / "client.py"
    program.write_text(CLIENT)
    finished = subprocess.run(
        [sys.executable, str(program), json.dumps(settings), action, uri],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return int(finished.stdout.rpartition("rows: ")[2])


def test_what_spark_wrote_to_hdfs_survives_a_kill_of_each_process(start_hdfs: StartHdfs, tmp_path: Path) -> None:
    server = start_hdfs()
    uri = f"{server.uri}/table"
    assert rows_of(tmp_path, server.hadoop_conf, "write", uri) == 10
    for part in (DATA_NODE, NAME_NODE):
        pid = server.processes[part].pid
        server.kill(part)
        assert not is_running(pid)
        server.start()
    # `fs.defaultFS` makes a path of a URI.
    assert rows_of(tmp_path, {**server.hadoop_conf, "fs.defaultFS": server.uri}, "read", "/table") == 10
    pids = [process.pid for process in server.processes.values()]
    server.close()
    assert not any(map(is_running, pids))


def test_spark_reads_what_it_wrote_to_s3_and_a_kill_empties_the_store(start_s3: StartS3, tmp_path: Path) -> None:
    server = start_s3()
    first, second = server.new_bucket(), server.new_bucket()
    assert first != second
    uri = f"{second}/table"
    assert rows_of(tmp_path, server.hadoop_conf, "write", uri, server.client_jars) == 10
    port, pid = server.port, server.pid
    server.kill()
    assert not is_running(pid)
    server.start()
    assert server.port == port
    assert server.new_bucket() not in {first, second}
    with pytest.raises(AssertionError, match=r"NoSuchBucket|PATH_NOT_FOUND"):
        rows_of(tmp_path, server.hadoop_conf, "read", uri, server.client_jars)
