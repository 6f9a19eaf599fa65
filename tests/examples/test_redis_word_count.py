"""`examples/redis_word_count`: on both engines with a real Redis, and under kills, against a plain count."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.testing import CrashRunner, Fault, FaultPoint, LocalCluster
from tests.conftest import StartRedis
from tests.engine.jobs import finished
from tests.examples.conftest import EXAMPLES, LoadJob
from tests.servers.redis_server import DURABLE, RedisServer

STREAM = "sentences"
GROUP = "redis-word-count:sentences"
CAPACITY = 200


def add_sentences(client: Any, count: int) -> Counter[str]:
    """Add entries to the stream; return how often each of their words occurs."""
    words: Counter[str] = Counter()
    for number in range(count):
        text = f"to be {number % 7} or not to be"
        client.xadd(STREAM, {"text": text})
        words.update(text.split())
    return words


def rows_of(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted((word, number) for word, count in counts.items() for number in range(1, count + 1))


def written_to(folder: Path) -> list[tuple[str, int]]:
    return sorted((row["word"], row["count"]) for row in pq.read_table(folder).to_pylist())


def test_each_entry_counts_once_and_none_stays_pending(
    load_job: LoadJob, redis_database: RedisServer, tmp_path: Path
) -> None:
    conf = {
        "redis.host": redis_database.host,
        "redis.port": redis_database.port,
        "word_count.output": str(tmp_path / "out"),
    }
    cluster = LocalCluster()
    counts: Counter[str] = Counter()
    with redis_database.client() as client:
        for entries in (CAPACITY, 10):
            counts += add_sentences(client, entries)
            client.xadd(STREAM, {"other": "without the field of the job"})
            handle = finished(load_job("redis_word_count").topology(conf), cluster=cluster)
            assert handle.state("count") == counts
            assert client.xpending(STREAM, GROUP)["pending"] == 0
    assert written_to(tmp_path / "out") == rows_of(counts)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_on_spark_with_a_killed_worker_and_a_killed_driver_each_entry_counts_once(
    start_redis: StartRedis, tmp_path: Path
) -> None:
    server = start_redis(**DURABLE)
    folder = tmp_path / "run"
    runner = CrashRunner(
        f"{EXAMPLES / 'redis_word_count' / 'job.py'}:topology",
        folder,
        conf={"redis.host": server.host, "redis.port": server.port, "topology.max.spout.pending": CAPACITY},
        arguments=["--master", "local[2]"],
    )
    with server.client() as client:
        counts = add_sentences(client, 10 * CAPACITY)
        report = runner.run(
            Fault(FaultPoint.SEALED, component="count", txid=1),  # a worker
            Fault(FaultPoint.COMMITTED, txid=2),  # the driver, before it acks
        )
        assert report.struck == report.faults
        assert client.xpending(STREAM, GROUP)["pending"] == 0
    assert written_to(folder / "out-words") == rows_of(counts)
