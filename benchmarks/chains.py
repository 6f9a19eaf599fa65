"""What an almost empty wave of four bolts takes as Spark jobs: with two of them chained, and with shuffles, in turn.

`make bench-chains`. A rich spout emits its next message when the last one is acked; the words of the message pass two
bolts, which are chained or not, and are counted. Each bolt has two tasks; the state is in Redis. With the spout and the
ackers a wave has four Spark stages, or six. The first waves are left out.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console

from anchorbolt.bolts import BaseBasicBolt
from anchorbolt.engine.spark.session import build_session
from anchorbolt.topology import Topology, TopologyBuilder
from benchmarks import reliable
from benchmarks.latency import Times, p50_and_p99, times_of_waves
from tests.support.stores import settings_of, store_of

_WORDS = 6  # of a message
_GROUPINGS = ("none", "shuffle")


class Pass(BaseBasicBolt):
    def execute(self, tup: Any, collector: Any) -> None:
        collector.emit((tup["word"],))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")


def four_bolts(grouping: str, waves: int) -> Topology:
    """Return a topology of four bolts. The second and the third one take their input by this grouping."""
    builder = TopologyBuilder()
    builder.set_spout("in", reliable.OneByOne(waves))
    builder.set_bolt("split", reliable.Split(), 2).shuffle_grouping("in")
    getattr(builder.set_bolt("first", Pass(), 2), f"{grouping}_grouping")("split")
    getattr(builder.set_bolt("second", Pass(), 2), f"{grouping}_grouping")("first")
    builder.set_bolt("count", reliable.Count(), 2).fields_grouping("second", "word")
    return builder.create_topology("four-bolts")


def main(
    waves: Annotated[int, typer.Option(help="Waves of each run.")] = 150,
    rounds: Annotated[int, typer.Option(help="Runs of each kind.")] = 3,
) -> None:
    """Measure, and print the medians."""
    console, times = Console(), defaultdict[str, Times](list)
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of("redis", Path(home)) as store:
        spark = build_session("chains", "local[2]")
        for number in range(rounds):
            for grouping in _GROUPINGS[:: (1, -1)[number % 2]]:
                directory = Path(home) / f"{number}-{grouping}"
                conf = {**settings_of(store), "topology.state.namespace.prefix": directory.name}
                found = times_of_waves(spark, four_bolts(grouping, waves), conf, directory, 0, waves * _WORDS)
                times[grouping] += found
                console.print(f"round {number + 1}, by {grouping} grouping: {median(found):.1f} ms")
        spark.stop()
    chained, shuffled = (times[grouping] for grouping in _GROUPINGS)
    console.print(
        f"p50 / p99 of a wave, ms: chained {p50_and_p99(chained)}, with shuffles {p50_and_p99(shuffled)}, "
        f"ratio {median(shuffled) / median(chained):.2f}"
    )


if __name__ == "__main__":
    typer.run(main)
