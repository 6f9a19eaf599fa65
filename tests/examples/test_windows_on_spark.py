"""`examples/windows` on Spark, by the command of the page; `test_windows.py` has one of them with kills."""

import os
from collections import Counter, defaultdict
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.command import ROOT, Command, run_arguments
from tests.examples.conftest import EXAMPLES
from tests.examples.test_windows import module
from tests.windows.model import windows

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(600)]


def run(name: str, directory: Path, *options: str) -> Any:
    """Run an example until its input is empty; return its module."""
    job = f"{EXAMPLES / 'windows' / name}.py:topology"
    arguments = run_arguments(job, "--until-empty", "--master", "local[2]", *options)
    with closing(
        Command(arguments, directory=directory, env={"PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))})
    ) as command:
        assert (command.end(), command.err) == (0, ""), repr(command)
    return module(name)


def rows(directory: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in pq.read_table(directory).to_pylist())


def test_the_top_words(tmp_path: Path) -> None:
    job = run("rolling_top_words", tmp_path, "--close-windows")
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for word, at in map(job.word, range(6000)):
        for end in range(at - at % 3000 + 3000, at - at % 3000 + 9001, 3000):
            counts[end - 1][word] += 1
    found: dict[int, list[int]] = defaultdict(list)
    for word, count, at in rows(tmp_path / "out-top-words"):
        assert counts[at][word] == count
        found[at].append(count)
    assert {at: sorted(some, reverse=True) for at, some in found.items()} == {
        at: sorted(counter.values(), reverse=True)[:5] for at, counter in counts.items()
    }


def test_sums_by_the_tuples_own_times(tmp_path: Path) -> None:
    job = run("sliding_tuple_ts", tmp_path, "--close-windows")
    readings = Counter(map(job.reading, range(3000)))
    late = Counter((row["late_tuple"]["value"], row["late_tuple"]["ts"]) for row in late_rows(tmp_path))
    assert late <= readings
    assert late.total() <= 30, "only those a minute behind"
    kept = list((readings - late).elements())
    size = job.Sum().with_window("5 s", "3 s")._windowing.size
    expected = windows(size, [ts for _, ts in kept], 310_000, by_event_time=True)
    assert rows(tmp_path / "out-sums") == sorted(
        (fired.start, fired.end, sum(kept[number][0] for number in fired.numbers)) for fired in expected
    )


def late_rows(directory: Path) -> list[Any]:
    found = list((directory / "out-sums-late").rglob("*.parquet"))
    return pq.read_table(directory / "out-sums-late").to_pylist() if found else []


def test_a_running_sum_in_the_state(tmp_path: Path) -> None:
    run("stateful_windowing", tmp_path)
    assert rows(tmp_path / "out-totals") == [(total,) for total in list(accumulate(range(3000)))[2::3]]


def test_averages_of_large_windows(tmp_path: Path) -> None:
    job = run("persistent_windowing", tmp_path, "--close-windows")
    values = [job.reading(number)[0] for number in range(50_000)]
    bounds = [(0, 1), *((end - 9999, end + 1) for end in range(10_000, 50_000, 10_000)), (40_001, 50_000)]
    ends = range(0, 50_001, 10_000)
    assert rows(tmp_path / "out-averages") == [
        (at, sum(values[start:end]) / (end - start), sum(values[:end]) / end)
        for at, (start, end) in zip(ends, bounds, strict=True)
    ]


def test_a_join_by_entries_with_a_ttl(tmp_path: Path) -> None:
    job = run("single_join", tmp_path)
    assert rows(tmp_path / "out-joined") == [(*job.gender(id), 20 + id % 60) for id in range(1000)]


def test_a_join_of_windows(tmp_path: Path) -> None:
    job = run("join_bolt", tmp_path, "--close-windows")
    assert rows(tmp_path / "out-joined") == sorted(
        (one[0], other[0], one[1], other[1])
        for one in map(job.gender, range(1000))
        for other in map(job.age, range(1000))
        if one[0] == other[0] and -(-one[2] // 10_000) == -(-other[2] // 10_000)
    )
