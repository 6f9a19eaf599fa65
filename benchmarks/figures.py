"""Shows results: tables for a person, and one JSON document for a program. Measures nothing."""

import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import pyspark
from rich.console import Console
from rich.table import Table

from benchmarks.rounds import Result

__all__ = ["as_document", "machine", "show"]


def machine() -> dict[str, Any]:
    """Describe the machine. Call it before the first round, so that the load average is that of other programs."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "spark": pyspark.__version__,
        "java": _java_version(),
        "load_average_before": round(os.getloadavg()[0], 2),
    }


def as_document(results: Sequence[Result], about: dict[str, Any], compared: Sequence[str]) -> dict[str, Any]:
    """Return all measurements as plain values for JSON. The ratios are those of each `compared` side to each side."""
    return {
        "machine": about,
        "workloads": [
            {
                **asdict(result.workload),
                "words_counted": result.words,
                "distinct_words": result.distinct_words,
                "counts_equal": True,  # `compare` raises if they differ
                "ratios": {
                    ours: {side: result.ratio(ours, side) for side in result.batches}
                    for ours in compared
                    if ours in result.batches
                },
                "sides": {side: _side_document(result, side) for side in result.batches},
            }
            for result in results
        ],
    }


def show(console: Console, results: Sequence[Result], compared: Sequence[str], explained: str) -> None:
    """Print each side, with the ratios of the `compared` sides to it, and where the time of `explained` goes."""
    for result in results:
        beside = [side for side in compared if side in result.batches]
        title = f"{result.workload.title}, medians of {result.workload.rounds} rounds; columns of ratios: times as fast"
        table = Table("side", "words/s", "ms a batch", "9 of 10 below", *beside, title=title)
        table.columns[0].no_wrap = True
        for column in table.columns[1:]:
            column.justify = "right"
        for side in result.batches:
            rate = "" if result.workload.is_small else f"{median(result.words_per_second(side)):,.0f}"
            ratios = ("" if side == ours else f"{result.ratio(ours, side):.2f}" for ours in beside)
            times = (f"{ms:,.0f}" for ms in (median(result.trigger_ms(side)), result.ninth_decile_ms(side)))
            table.add_row(side, rate, *times, *ratios)
        console.print(table)
    table = Table("medians, ms", "of the wave's report", "of Spark's progress", title=f"Where {explained}'s time goes")
    for result in results:
        if explained in result.batches:
            times = (_listed(result.medians(explained, attribute)) for attribute in ("phases_ms", "parts_ms"))
            table.add_row(result.workload.title, *times)
    console.print(table)
    console.print("All counts are equal to a plain count of the text.")


def _side_document(result: Result, side: str) -> dict[str, Any]:
    return {
        "words_per_second": median(result.words_per_second(side)),
        "words_per_second_by_round": result.words_per_second(side),
        "trigger_ms": median(result.trigger_ms(side)),
        "trigger_ms_ninth_decile": result.ninth_decile_ms(side),
        "trigger_ms_by_round": [[batch.trigger_ms for batch in batches] for batches in result.batches[side]],
        "parts_ms": result.medians(side, "parts_ms"),
        "phases_ms": result.medians(side, "phases_ms"),
    }


def _listed(times: dict[str, float]) -> str:
    return ", ".join(f"{name.removesuffix('_ms')} {ms:.0f}" for name, ms in times.items())


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    command = [str(Path(home, "bin", "java")) if home else "java", "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr  # openjdk version "17.0.1" …
    return said.split('"')[1]


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
