"""A state frame beside the same data as Parquet: Spark counts them, and joins them with a small table.

make bench-frames OPTIONS="--keys 10000000"
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt import state_frame
from anchorbolt.engine.spark.session import build_session
from benchmarks.moving import NAME, Runs, key
from benchmarks.workloads import TASKS
from tests.support.stores import PROVIDERS, settings_of, store_of

_ROUNDS = 3
_JOINED = 1000


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "sqlite",
    keys: Annotated[int, typer.Option(min=100_000, help="A multiple of 100,000.")] = 1_000_000,
) -> None:
    """Measure a state frame."""
    table = Table("", "state frame, s", "Parquet, s", "ratio", title=f"{provider}, {keys:,} keys in {TASKS} tasks")
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as name, store_of(provider, Path(name, "a")) as store:
        runs = Runs(settings_of(store), Path(name), provider)
        runs.fill(keys)
        runs.command("rescale", NAME, f"count={TASKS}", conf=runs.conf_file)
        spark = build_session("frames", f"local[{TASKS}]")
        spark.sparkContext.setLogLevel("ERROR")
        frame = state_frame(spark, NAME, runs.conf, schema="key string, value bigint")
        frame.write.parquet(f"{name}/parquet")
        small = spark.createDataFrame([(key(number * 7), number) for number in range(_JOINED)], ["key", "number"])

        def by_group(frame: Any) -> int:
            return len(frame.groupBy(frame.key.substr(-1, 1)).count().collect())

        def joined_whole(frame: Any) -> int:
            other = spark.read.parquet(f"{name}/parquet").withColumnRenamed("value", "other")
            return int(frame.join(other, "key").selectExpr("sum(value + other)").collect()[0][0])

        def joined(frame: Any) -> int:
            return int(frame.join(small, "key").selectExpr("sum(value + number)").collect()[0][0])

        def summed(frame: Any) -> int:
            return int(frame.selectExpr("sum(value)").collect()[0][0])

        acts = {
            "count": lambda each: each.count(),
            "sum": summed,
            "count by group": by_group,
            f"join with {_JOINED:,} rows": joined,
            "join with all keys": joined_whole,
        }
        for what, act in acts.items():
            times: list[list[float]] = [[], []]
            results = set()
            for _ in range(_ROUNDS):
                for side, taken in zip((frame, spark.read.parquet(f"{name}/parquet")), times, strict=True):
                    began = time.perf_counter()
                    results.add(act(side))
                    taken.append(time.perf_counter() - began)
            if len(results) != 1:
                raise RuntimeError(f"{what}: {results}")
            one, other = map(statistics.median, times)
            table.add_row(what, f"{one:.2f}", f"{other:.2f}", f"{one / other:.1f}")
        spark.stop()
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
