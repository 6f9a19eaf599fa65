"""The demo proves what it says: it kills, it compares, it fails where counts differ, and it leaves nothing behind."""

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.command import wait_until
from tests.examples.conftest import DemoProcess

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the demo finds processes in /proc")


@linux
@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("provider", ["sqlite", "redis", "redis-cluster", "hbase"])
def test_counts_are_equal_after_a_killed_worker_and_a_killed_driver(
    start_demo: Callable[..., DemoProcess], request: pytest.FixtureRequest, provider: str
) -> None:
    if provider.startswith("redis"):
        request.getfixturevalue("redis_program")
    if provider == "hbase":
        request.getfixturevalue("hbase_program")
    demo = start_demo("--provider", provider)
    wait_until(lambda: demo.has_ended, f"the end of {demo!r}", seconds=850)
    assert demo.end() == 0, repr(demo)
    printed = demo.out
    assert "killed the Python worker" in printed
    assert "killed the driver" in printed
    assert printed.count("equal to the independent count") == 2, printed
    assert demo.left_over() == []


@pytest.mark.thorough
@linux
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_demo_that_is_terminated_takes_its_spark_with_it(start_demo: Callable[..., DemoProcess]) -> None:
    demo = start_demo()
    demo.wait_for("the driver has started")
    assert any("java" in command for command in demo.left_over())
    demo.send(signal.SIGTERM)
    assert demo.end() == 143
    assert demo.left_over() == []


EXPECTED = Counter({"to": 2, "be": 3})


def write_sink(folder: Path, rows: list[tuple[str, int]]) -> Path:
    for number, row in enumerate(rows):
        table = pa.table({"word": [row[0]], "count": [row[1]]})
        pq.write_table(table, folder / f"part-{number}.parquet")
    return folder


@pytest.mark.parametrize(
    ("rows", "differing"),
    [
        ([("to", 1), ("to", 2), ("be", 3), ("be", 1), ("be", 2)], None),
        ([("to", 1), ("to", 2), ("be", 1), ("be", 2)], "'be'"),
        ([("to", 1), ("to", 2), ("be", 1), ("be", 2), ("be", 3), ("be", 3)], "'be'"),
        ([("to", 1), ("to", 1), ("be", 1), ("be", 2), ("be", 3)], "'to'"),
        ([("to", 1), ("to", 3), ("be", 1), ("be", 2), ("be", 3)], "'to'"),
        ([("to", 1), ("to", 2), ("be", 1), ("be", 2), ("be", 3), ("or", 1)], "'or'"),
    ],
    ids=["right", "row lost", "row twice", "count twice", "count skipped", "word too many"],
)
def test_the_sink_must_hold_each_count_of_each_word_once(
    demo_part: Callable[[str], Any], tmp_path: Path, rows: list[tuple[str, int]], differing: str | None
) -> None:
    verdict = demo_part("verdict").judge(EXPECTED, EXPECTED, write_sink(tmp_path, rows))
    assert verdict.equal == (differing is None)
    assert [line.partition(":")[0] for line in verdict.sink] == ([differing] if differing else [])
    assert verdict.state == []


@pytest.mark.parametrize("state", [{"to": 2, "be": 4}, {"to": 2}, {"to": 2, "be": 3, "or": 1}])
def test_the_state_must_be_the_independent_count(
    demo_part: Callable[[str], Any], tmp_path: Path, state: dict[str, int]
) -> None:
    sink = write_sink(tmp_path, [("to", 1), ("to", 2), ("be", 1), ("be", 2), ("be", 3)])
    verdict = demo_part("verdict").judge(EXPECTED, state, sink)
    assert not verdict.equal
    assert len(verdict.state) == 1
    assert verdict.sink == []


def test_equal_counts_without_both_kills_prove_nothing(demo_part: Callable[[str], Any]) -> None:
    report, drill, verdict = demo_part("report"), demo_part("drill"), demo_part("verdict")
    equal = verdict.Verdict(words=5, distinct=2, state=[], sink=[], sink_rows=5)
    unequal = verdict.Verdict(words=5, distinct=2, state=["'be': count 4, expected 3"], sink=[], sink_rows=5)
    kills = [drill.Kill(victim, 1, 0.0, 0, 0.0) for victim in ("worker", "driver")]
    assert report.Run("sqlite", 1, drill.Story(kills=kills), equal).proved
    assert not report.Run("sqlite", 1, drill.Story(kills=kills), unequal).proved
    assert not report.Run("sqlite", 1, drill.Story(kills=kills[:1]), equal).proved
    assert not report.Run("sqlite", 1, drill.Story(kills=kills[1:]), equal).proved
