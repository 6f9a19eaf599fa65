"""The five programs of docs/your_topology.md count the words of the same text, each in its own system."""

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anchorbolt.storm.kryo import StormDecoder, detect
from anchorbolt.testing import FeederSpout
from tests.engine.jobs import chain, finished
from tests.examples.your_topology import systems
from tests.servers.redis_server import RedisServer

TEXT = "to be or not to be\nthat is the question\nto sleep to dream\n"
COUNTS = Counter(TEXT.split())


def each_count_once(counts: Counter[str] = COUNTS) -> list[str]:
    """Return the lines that a program outputs: for a word that occurs n times, each of the counts 1 to n."""
    return sorted(f"{word} {number + 1}" for word, count in counts.items() for number in range(count))


@contextmanager
def skipped_if_missing() -> Iterator[None]:
    try:
        yield
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "hamlet.txt"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def state_of_storm(redis: RedisServer) -> dict[str, int]:
    """Read what Storm committed for the bolt `count`: a hash for each of its tasks."""
    with redis.client() as client:
        names = [name for name in client.scan_iter("count-*") if b"$" not in name]
        pairs = {word: count for name in names for word, count in client.hgetall(name).items()}
    if not pairs:
        return {}
    decoder = StormDecoder(detect(pairs.items()).generation)
    return {decoder.decode_key(word).value: decoder.decode_value(count).value for word, count in pairs.items()}


@pytest.mark.thorough
@pytest.mark.slow
def test_storm_counts_and_has_its_state_in_redis(text: Path, tmp_path: Path, redis_database: RedisServer) -> None:
    def committed() -> bool:
        return state_of_storm(redis_database) == COUNTS

    with skipped_if_missing():
        lines = systems.run_storm(text, COUNTS.total(), tmp_path, redis_database, committed)
    assert sorted(lines) == each_count_once()


@pytest.mark.thorough
@pytest.mark.slow
def test_streamparse_counts_in_a_redis_of_its_own_use(text: Path, tmp_path: Path, redis_database: RedisServer) -> None:
    with skipped_if_missing():
        lines = systems.run_streamparse(text, COUNTS.total(), tmp_path, redis_database)
    assert sorted(lines) == each_count_once()
    with redis_database.client() as client:
        found = {word.decode(): int(count) for word, count in client.hgetall("word-count").items()}
    assert found == COUNTS


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("run", [systems.run_bytewax, systems.run_flink, systems.run_anchorbolt])
def test_the_programs_in_python_count(run: Callable[[Path, Path], list[str]], text: Path, tmp_path: Path) -> None:
    with skipped_if_missing():
        lines = run(text, tmp_path)
    assert sorted(lines) == each_count_once()


@pytest.mark.thorough
@pytest.mark.slow
def test_bytewax_continues_a_file_that_has_grown(text: Path, tmp_path: Path) -> None:
    with skipped_if_missing():
        systems.run_bytewax(text, tmp_path)
        with text.open("a") as file:
            file.write("to be\n")
        lines = systems.run_bytewax(text, tmp_path)
    assert sorted(lines) == each_count_once(COUNTS + Counter(["to", "be"]))


@pytest.mark.thorough
@pytest.mark.slow
def test_anchorbolt_continues_with_a_new_file(text: Path, tmp_path: Path) -> None:
    systems.run_anchorbolt(text, tmp_path)
    text.with_name("more.txt").write_text("to be\n")
    lines = systems.run_anchorbolt(text, tmp_path)
    assert sorted(lines) == each_count_once(COUNTS + Counter(["to", "be"]))


def test_the_bolts_of_our_program_count_without_spark_and_java() -> None:
    path = systems.PROGRAMS / "anchorbolt" / "word_count.py"
    spec = importlib.util.spec_from_file_location("word_count_of_the_columns", path)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    handle = finished(
        chain(
            "word-count",
            {
                "sentences": FeederSpout(["sentence"], [[(line,)] for line in TEXT.splitlines()]),
                "split": job.SplitSentence(),
                "count": (job.CountWords(), 2, "word"),
            },
        )
    )
    assert handle.state("count") == COUNTS
