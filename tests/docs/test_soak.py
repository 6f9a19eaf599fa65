"""The soak benchmark sees what grows and what is not exact, and a run that is stopped reports."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.soak.job import Job
from benchmarks.soak.outcome import wrong_in
from benchmarks.soak.trend import trend_of

ROOT = Path(__file__).parents[2]
MINUTES = list(np.arange(0, 120, 0.5))
NOISE = np.random.default_rng(1).normal(0, 5, len(MINUTES))


def verdict(values: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> str:
    trend = trend_of(MINUTES, list(values))
    assert trend is not None
    return trend.verdict


def test_noise_is_flat_whatever_the_warm_up_does() -> None:
    values = 500 + NOISE
    values[:20] = range(20)
    assert verdict(values) == "flat"


def test_a_leak_of_a_tenth_in_two_hours_is_seen_through_the_noise() -> None:
    leak = 500 + NOISE + 50 * np.linspace(0, 1, len(MINUTES))
    assert verdict(leak) == "grows"
    trend = trend_of(MINUTES, list(leak))
    assert trend is not None
    assert trend.per_hour == pytest.approx(25, abs=2)
    assert trend.last > trend.first


def test_what_grows_in_the_first_half_only_is_told_apart() -> None:
    assert verdict(500 + NOISE + 100 * np.minimum(1, np.linspace(0, 2, len(MINUTES)))) == "grows, level later"


def ended(home: Path, rows: list[int], counts: dict[str, int], read: int) -> Job:
    """Return a job with 2 words and batches of 4 rows that has ended."""
    job = Job(home=str(home), source="rate", store={}, keys=2, rows=4, files_per_wave=1, wave_ms=1000)
    seen = [sum(other % 2 == row % 2 for other in rows[: place + 1]) for place, row in enumerate(rows)]
    job.path("sink").mkdir()
    sink = pa.table({"row": rows, "word": [f"w{row % 2}" for row in rows], "count": seen})
    pq.write_table(sink, job.path("sink") / "part-0.parquet")
    job.path("state.json").write_text(json.dumps(counts))
    job.path("waves.csv").write_text(f"1.0,0,{read},5.0\n")
    return job


@pytest.mark.parametrize(
    ("rows", "counts", "read", "wrong"),
    [
        ([*range(8)], {"w0": 4, "w1": 4}, 8, 0),
        ([*range(8)], {"w0": 4, "w1": 3}, 8, 2),  # that count, and the sum
        ([*range(8), 7], {"w0": 4, "w1": 5}, 8, 4),  # read, twice in the sink, the count, the sum
        ([0, 1, 2, 3], {"w0": 2, "w1": 2}, 8, 2),
    ],
)
def test_a_row_that_is_lost_or_there_twice_is_found(
    tmp_path: Path, rows: list[int], counts: dict[str, int], read: int, wrong: int
) -> None:
    assert len(wrong_in(ended(tmp_path, rows, counts, read))) == wrong


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("source", ["rate", "files", "messages"])
def test_a_run_that_is_stopped_is_exact_and_has_a_table(source: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as short:  # the paths of Spark's sockets are below it
        run_and_stop(source, Path(short) / "run", tmp_path / "samples.csv")


def run_and_stop(source: str, home: Path, samples: Path) -> None:
    options = ["--source", source, "--files", "50", "--files-per-wave", "2", "--wave-ms", "200", "--sample-s", "1"]
    options += ["--workers", "2"] if source == "messages" else []
    command = [sys.executable, "-m", "benchmarks.soak", *options, "--directory", str(home), "--output", str(samples)]
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=paths, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        waves = home / "waves.csv"
        while run.poll() is None and (not waves.exists() or waves.read_text().count("\n") < 5):
            time.sleep(0.1)
        run.send_signal(signal.SIGTERM)
        printed, _ = run.communicate(timeout=120)
    assert run.returncode == 0, printed
    assert "exact: each row once" in printed
    assert "jvm open files" in printed
    assert "redis MB" in samples.read_text()
