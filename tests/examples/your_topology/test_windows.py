"""The parts of docs/your_topology.md that count words by the hour do so, each in its own system."""

import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import own_environment  # (systems has put the tools on the path)
import pytest

import anchorbolt.windows
from anchorbolt.testing import FeederSpout, LocalCluster, TupleCapture
from anchorbolt.topology import TopologyBuilder
from tests.cli.command import Command
from tests.docs.pages import Page
from tests.examples.your_topology import systems
from tests.examples.your_topology.test_programs import skipped_if_missing

MINUTE, HOUR = 60_000, 3_600_000
WORDS = [("to", 0), ("be", 58 * MINUTE), ("to", 62 * MINUTE), ("to", 59 * MINUTE), ("be", 130 * MINUTE)]
COUNTS = Counter((word, at - at % HOUR) for word, at in WORDS)

STORM = """
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.topology.base.BaseWindowedBolt.Duration;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;
import org.apache.storm.windowing.TupleWindow;

public class Windows {
%s
static void build(TopologyBuilder builder) {
%s
}
}
"""
BYTEWAX = """
from datetime import datetime, timedelta, timezone

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, count_window
from bytewax.testing import TestingSink, TestingSource, run_main

items = [(word, datetime.fromtimestamp(at / 1000, timezone.utc)) for word, at in %r]
flow, out = Dataflow("hours"), []
words = op.input("words", flow, TestingSource(items))
%s
op.output("out", hours.down, TestingSink(out))
run_main(flow)
for word, (hour, count) in out:
    print(word, hour * 3_600_000, count)
"""
FLINK = """
from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from pyflink.datastream.window import TumblingEventTimeWindows

%s
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
words = env.from_collection(%r, type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))
%s
for line in counts.execute_and_collect():
    print(line)
"""


def parts(sign: str) -> list[str]:
    """Return the blocks of the section in the column whose first block has this sign."""
    blocks = [block.text for block in Page("docs/your_topology.md").blocks if block.section == "A count by hour"]
    start = next(place for place, text in enumerate(blocks) if sign in text)
    return blocks[start : start + 2]


def counts_in(lines: str) -> dict[tuple[str, int], int]:
    return {(word, int(hour)): int(count) for word, hour, count in map(str.split, lines.splitlines())}


def test_our_bolt_counts_by_the_hour() -> None:
    bolt, wiring = parts("(BaseWindowBolt)")
    captured, builder = TupleCapture(), TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word", "at"], [[word] for word in WORDS]))
    exec(bolt + wiring, {"__name__": __name__, "builder": builder, **vars(anchorbolt.windows)})
    builder.set_bolt("out", captured).global_grouping("hours")
    conf = {"topology.windows.close.when.empty": True}
    LocalCluster().submit(builder.create_topology("hours"), conf).await_termination(30)
    assert {(word, hour): count for word, hour, count in captured.tuples} == COUNTS


def test_the_bolt_of_streamparse_counts_by_the_hour() -> None:
    names: dict[str, Any] = {"Bolt": object}
    exec(parts("class HourlyWords(Bolt)")[0], names)
    bolt, kept = names["HourlyWords"](), Counter[tuple[str, str]]()
    emitted: list[tuple[str, int, int]] = []

    def hincrby(key: str, word: str, by: int) -> int:
        kept[key, word] += by
        return kept[key, word]

    bolt.redis, bolt.emit = SimpleNamespace(hincrby=hincrby), emitted.append
    for word in WORDS:
        bolt.process(SimpleNamespace(values=word))
    assert {(word, hour): count for word, hour, count in emitted} == COUNTS


@pytest.mark.thorough
@pytest.mark.slow
def test_the_bolt_of_storm_can_be_compiled(tmp_path: Path) -> None:
    source = tmp_path / "Windows.java"
    source.write_text(STORM % tuple(parts("extends BaseWindowedBolt")))
    with skipped_if_missing():
        assert systems.Storm(tmp_path).jar(source).exists()


@pytest.mark.thorough
@pytest.mark.slow
def test_bytewax_counts_by_the_hour(tmp_path: Path) -> None:
    with skipped_if_missing():
        python = systems.python_of(own_environment.OTHER_SYSTEMS)
    program = tmp_path / "hours.py"
    program.write_text(BYTEWAX % (WORDS, parts("EventClock")[0]))
    done = subprocess.run([python, program], check=True, capture_output=True, text=True)
    assert counts_in(done.stdout) == COUNTS


@pytest.mark.thorough
@pytest.mark.slow
def test_flink_counts_by_the_hour(tmp_path: Path) -> None:
    with skipped_if_missing():
        python = systems.python_of(own_environment.FLINK)
    program = tmp_path / "hours.py"
    functions, pipeline = parts("TimestampAssigner")
    program.write_text(FLINK % (functions, WORDS, pipeline))
    env = systems.first_on_path(python.parent)
    with closing(Command([str(python), str(program)], directory=tmp_path, env=env)) as job:
        assert job.end() == 0, repr(job)
        assert counts_in(job.out) == COUNTS
