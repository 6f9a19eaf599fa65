"""`examples/windows`: topologies of storm-starter, against plain computations of their results."""

import importlib.util
import os
from collections import Counter, defaultdict
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.spouts import GeneratorSpout
from anchorbolt.testing import CrashRunner, Fault, FaultPoint, FeederSpout, LocalCluster, TupleCapture
from anchorbolt.topology import Topology
from tests.cli.command import ROOT, Command, run_arguments
from tests.examples.conftest import EXAMPLES
from tests.windows.model import windows

DEADLINE_S = 60


def module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"windows_{name}", EXAMPLES / "windows" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def run(topology: Topology) -> None:
    LocalCluster().submit(topology, until_empty=True).await_termination(DEADLINE_S)


def averages() -> list[float]:
    values = [number * 7919 % 1000 for number in range(3000)]
    sums = [sum(values[max(0, end - 30) : end]) for end in range(10, 3001, 10)]
    return [sum(sums[start : start + 3]) / 3 for start in range(0, len(sums), 3)]


def test_sliding_sums_and_their_averages() -> None:
    job, captured = module("sliding_window"), TupleCapture()
    run(job.wire(GeneratorSpout(["value"], job.number, count=3000), captured))
    assert captured.tuples == [(average,) for average in averages()]


def test_the_top_words_of_each_window_of_nine_seconds() -> None:
    job, captured = module("rolling_top_words"), TupleCapture()
    words = [job.word(number) for number in range(6000)]
    batches = [words[start : start + 500] for start in range(0, 6000, 500)]
    conf = {"topology.windows.close.when.empty": True}
    topology = job.wire(FeederSpout(["word", "at"], batches), captured)
    LocalCluster().submit(topology, conf).await_termination(DEADLINE_S)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for word, at in words:
        for end in range(at - at % 3000 + 3000, at - at % 3000 + 9001, 3000):
            counts[end - 1][word] += 1
    found: dict[int, list[int]] = defaultdict(list)
    for word, count, at in captured.tuples:
        assert counts[at][word] == count
        found[at].append(count)
    assert found == {at: sorted(counter.values(), reverse=True)[:5] for at, counter in counts.items()}


def test_sums_by_the_tuples_own_times() -> None:
    job, captured, late = module("sliding_tuple_ts"), TupleCapture(), TupleCapture()
    batches = [list(map(job.reading, range(start, start + 100))) for start in range(0, 3000, 100)]
    run(job.wire(FeederSpout(["value", "ts"], batches), captured, late))
    kept, lates, watermark = [], [], -(10**9)
    for batch in batches:
        kept += [reading for reading in batch if reading[1] >= watermark]
        lates += [{"value": value, "ts": ts} for value, ts in batch if ts < watermark]
        watermark = max(watermark, max(ts for _, ts in batch) - 5000)
    assert late.tuples == [(each,) for each in lates]
    assert len(lates) == 29, "those a minute behind, but for the first wave's"
    size = job.Sum().with_window("5 s", "3 s")._windowing.size
    expected = windows(size, [ts for _, ts in kept], watermark, by_event_time=True)
    sums = [(fired.start, fired.end, sum(kept[number][0] for number in fired.numbers)) for fired in expected]
    assert captured.tuples == sums[: len(captured.tuples)]
    assert len(captured.tuples) >= 95


def test_a_running_sum_in_the_state() -> None:
    job, captured = module("stateful_windowing"), TupleCapture()
    run(job.wire(GeneratorSpout(["value"], job.number, count=3000), captured))
    assert captured.tuples == [(total,) for total in list(accumulate(range(3000)))[2::3]]


def test_averages_of_large_windows() -> None:
    job, captured = module("persistent_windowing"), TupleCapture()
    run(job.wire(GeneratorSpout(["value", "at"], job.reading, count=10_000, batch=1000), captured, "2 s"))
    values = [job.reading(number)[0] for number in range(10_000)]
    bounds = [(0, 1), *((end - 1999, end + 1) for end in range(2000, 10_000, 2000))]
    expected = [(end - 1, sum(values[start:end]) / (end - start), sum(values[:end]) / end) for start, end in bounds]
    assert captured.tuples == expected[: len(captured.tuples)]
    assert len(captured.tuples) >= 4


def test_a_join_by_entries_with_a_ttl() -> None:
    job, captured = module("single_join"), TupleCapture()
    genders, ages = (
        GeneratorSpout(["id", "gender"], job.gender, count=1000),
        GeneratorSpout(["id", "age"], job.age, count=1000),
    )
    run(job.wire(genders, ages, captured))
    assert sorted(captured.tuples) == [(*job.gender(id), 20 + id % 60) for id in range(1000)]


def test_a_join_of_windows() -> None:
    job, captured = module("join_bolt"), TupleCapture()
    genders = GeneratorSpout(["id", "gender", "at"], job.gender, count=1000)
    ages = GeneratorSpout(["id", "age", "at"], job.age, count=1000)
    run(job.wire(genders, ages, captured))
    expected = sorted(
        (one[0], other[0], one[1], other[1])
        for one in map(job.gender, range(1000))
        for other in map(job.age, range(1000))
        if one[0] == other[0] and -(-one[2] // 10_000) == -(-other[2] // 10_000)
    )
    got = sorted(captured.tuples)
    assert len(got) > 800
    assert got == [row for row in expected if row[0] <= got[-1][0]]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_spark(tmp_path: Path) -> None:
    """The averages of `sliding_window.py`, whose results do not depend on waves."""
    job = f"{EXAMPLES / 'windows' / 'sliding_window.py'}:topology"
    arguments = run_arguments(job, "--until-empty", "--master", "local[2]")
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
    with closing(Command(arguments, directory=tmp_path, env=env)) as command:
        assert (command.end(), command.err) == (0, ""), repr(command)
    rows = pq.read_table(tmp_path / "out-averages").to_pylist()
    assert sorted(row["average"] for row in rows) == sorted(averages())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_on_spark_with_workers_killed_each_window_has_its_tuples_once(tmp_path: Path) -> None:
    job = f"{EXAMPLES / 'windows' / 'sliding_window.py'}:topology"
    runner = CrashRunner(job, tmp_path / "run", arguments=["--master", "local[2]"])
    faults = [Fault(point, component="sums", txid=0) for point in (FaultPoint.TASK_EXECUTED, FaultPoint.SEALED)]
    report = runner.run(*faults)
    assert report.struck == report.faults
    rows = pq.read_table(tmp_path / "run" / "out-averages").to_pylist()
    assert sorted(row["average"] for row in rows) == sorted(averages())
