"""A driver killed with SIGKILL while a sink of the user's publishes: the next run publishes it once more, and no other.

Kills at every other point are in `tests/crash`.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import DataFrameSink, ParquetSink
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.engine.jobs import text_spout, word_count, write_lines
from tests.engine.spark.test_spark_cluster import LINES, WORDS, conf_in

ROOT = Path(__file__).resolve().parents[3]


def main(folder: Path) -> None:
    """Run the job until its source is empty; print what recovery did, and the state at the end, as JSON."""

    def publish(frame: Any, txid: int) -> None:
        rows = sorted(tuple(row) for row in frame.collect())
        marker = folder / "killed"
        if txid == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        (folder / "published").mkdir(exist_ok=True)
        (folder / "published" / str(txid)).write_text(json.dumps(rows))

    topology = word_count(text_spout(folder / "in"), ParquetSink(str(folder / "out")), DataFrameSink(publish))
    spark = build_session("killed-driver", "local[2]")
    handle = SparkCluster(spark).submit(topology, conf_in(folder), until_empty=True)
    handle.await_termination()
    print(json.dumps({"recovery": handle.recovery.action, "state": handle.state("count")}))
    spark.stop()


def run_job(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.spark.test_killed_driver", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.thorough
def test_a_driver_killed_while_a_sink_publishes_has_one_effect(tmp_path: Path) -> None:
    write_lines(tmp_path / "in", LINES)
    first = run_job(tmp_path)
    assert first.returncode == -signal.SIGKILL, first.stdout + first.stderr
    second = run_job(tmp_path)
    assert second.returncode == 0, second.stdout + second.stderr
    result = json.loads(second.stdout.splitlines()[-1])
    assert result["recovery"] == "rolled forward"
    assert result["state"] == WORDS
    expected = Counter((word, count) for word in WORDS for count in range(1, WORDS[word] + 1))
    rows = Counter((row["word"], row["count"]) for row in pq.read_table(tmp_path / "out").to_pylist())
    assert rows == expected
    published = [tuple(row) for path in (tmp_path / "published").iterdir() for row in json.loads(path.read_text())]
    assert Counter(published) == expected
    provider = SqliteStateProvider(str(tmp_path / "state"))
    for namespace in provider.namespaces():
        storage = provider.open(namespace)
        assert not storage.head().attempts, f"{namespace} keeps leftovers of a dead attempt"
        storage.close()
    assert len(list((tmp_path / "checkpoint" / "anchorbolt" / "outbox").iterdir())) == 1, "only the last round's"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
