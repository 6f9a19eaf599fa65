"""Whether a job that runs for hours grows: memory, open files, threads, files, Redis.

    make bench-soak                                              # two hours of a wave a second
    make bench-soak OPTIONS="--source files --files 100000"      # the same from files, one more each second
    make bench-soak OPTIONS="--source messages --workers 2 --wave-ms 20 --minutes 60"      # 50 waves a second
    make bench-soak OPTIONS="--minutes 5"

A stateful word count with a bounded number of words runs on `local[2]`, in a driver process of its own, with its state
in Redis, and a `ParquetSink` (messages of a rich spout: without it). Each sample is printed, and written as CSV. At the
end, a table shows for each quantity the straight line through its samples after the warm-up. SIGINT and SIGTERM end the
run early, with the table.
"""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.console import Console

from benchmarks.soak.job import SOURCES, Job, add_file
from benchmarks.soak.outcome import wrong_in
from benchmarks.soak.sampling import Sample, Sampler
from benchmarks.soak.trend import table_of, warm_up
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of, store_of

_END_S = 120.0
_PLACES = ("input", "sink", "tmp", "spark-local")
_ROWS = {"rate": 2000, "files": 100, "messages": 20}


def main(
    minutes: Annotated[float, typer.Option(min=0.1)] = 120,
    source: Annotated[str, typer.Option(help=f"One of {', '.join(SOURCES)}.")] = "rate",
    files: Annotated[int, typer.Option(min=1, help="Input files that exist at the start, with --source files.")] = 1000,
    files_per_wave: Annotated[int, typer.Option(help="0: so many that the files last as long as the run.")] = 0,
    rows: Annotated[
        int, typer.Option(help="Rows of a wave, or of a file; 0: 2,000, or 100 of a file, or 20 messages.")
    ] = 0,
    keys: Annotated[int, typer.Option(min=1)] = 20_000,
    wave_ms: Annotated[int, typer.Option(min=10, help="Between two waves.")] = 1000,
    workers: Annotated[int, typer.Option(min=0, help="topology.workers")] = 0,
    sample_s: Annotated[float, typer.Option(min=1, help="Seconds between two samples.")] = 30,
    output: Annotated[Path | None, typer.Option(help="CSV file; build/benchmarks/soak-SOURCE.csv without it.")] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="New directory of the run, which is kept. Its path must be short: Spark puts sockets there."),
    ] = None,
) -> None:
    """Run the job, and print what grows. Fails only if the run itself does, or is not exact."""
    if source not in SOURCES:
        raise typer.BadParameter(f"{source!r} is not one of {', '.join(SOURCES)}", param_hint="--source")
    output = output or Path(f"build/benchmarks/soak-{source}.csv")
    output.parent.mkdir(parents=True, exist_ok=True)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    with tempfile.TemporaryDirectory(prefix="anchorbolt-soak-") as temporary:
        home = (directory or Path(temporary)).resolve()
        for name in _PLACES:
            (home / name).mkdir(parents=True)
        with store_of("redis", home) as server:
            assert isinstance(server, RedisServer)
            job = Job(
                home=str(home),
                source=source,
                store=settings_of(server),
                keys=keys,
                rows=rows or _ROWS[source],
                files_per_wave=files_per_wave or 1 + -(-files // max(1, int(minutes * 60_000 / wave_ms))),
                wave_ms=wave_ms,
                workers=workers,
            )
            if source == "files":
                for file in range(files):
                    add_file(job, file)
            raise typer.Exit(_soak(job, server, stopped, minutes * 60, sample_s, output, files))


def _soak(
    job: Job, server: RedisServer, stopped: threading.Event, seconds: float, sample_s: float, output: Path, files: int
) -> int:
    """Run the job for some seconds, or until `stopped`; return the exit code."""
    job.write(job.path("job.json"))
    command = [sys.executable, "-m", "benchmarks.soak.driver", str(job.path("job.json"))]
    environment = {**os.environ, "TMPDIR": str(job.path("tmp"))}
    environment.pop("SPARK_LOCAL_DIRS", None)
    with job.path("driver.log").open("wb") as log:
        driver = subprocess.Popen(command, env=environment, start_new_session=True, stdout=log, stderr=log)
    samples: list[Sample] = []
    fed = threading.Thread(target=_feed, args=(job, files, stopped, driver), daemon=True)
    if job.source == "files":
        fed.start()
    with output.open("w", newline="") as file, server.client() as store:
        sampler, end, due = Sampler(job, driver.pid, store), time.monotonic() + seconds, time.monotonic()
        while driver.poll() is None and not stopped.is_set() and time.monotonic() < end:
            if time.monotonic() >= due:
                due += sample_s
                samples.append(sampler.sample())
                _print_sample(samples)
                _write(samples, file)
            stopped.wait(0.5)
        running = driver.poll() is None
        stopped.set()
        driver.terminate()
        try:
            driver.wait(_END_S)
        except subprocess.TimeoutExpired:
            driver.kill()
    return _report(job, samples, running and driver.wait() == 0, output)


def _report(job: Job, samples: Sequence[Sample], has_ended_well: bool, output: Path) -> int:
    console = Console(width=None if sys.stdout.isatty() else 140)
    if len(samples) > 1:
        console.print(table_of(samples, f"source {job.source}, {samples[-1]['minutes']:.0f} minutes"))
        start = warm_up(samples[-1]["minutes"])
        after = [each for each in samples if each["minutes"] >= start]
        waves, spent = (after[-1][name] - after[0][name] for name in ("waves", "minutes"))
        rate = f"{waves / spent / 60:.2f} a second after the warm-up" if spent else "too few samples"
        console.print(f"{samples[-1]['waves']:,.0f} waves, {rate}; {output}")
    _print_batches(job, console)
    if not has_ended_well:
        console.print("the run has failed; the end of its log:")
        print(job.path("driver.log").read_text(errors="replace")[-4000:])
        return 1
    wrong = wrong_in(job)
    console.print(
        "exact: each row once in the state and in the sink" if not wrong else f"NOT EXACT: {'; '.join(wrong)}"
    )
    return 1 if wrong else 0


def _print_batches(job: Job, console: Console) -> None:
    """Print how long the first batch took, every tenth one (in which Spark compacts its log of files), the others."""
    lines = job.path("batches.csv").read_text().splitlines() if job.path("batches.csv").exists() else []
    batches = [tuple(map(int, line.split(","))) for line in lines]
    groups = {
        "first": [each for each in batches if each[0] == 0],
        "every tenth": [each for each in batches if each[0] % 10 == 9],
        "others": [each for each in batches if each[0] and each[0] % 10 != 9],
    }
    for name, group in groups.items():
        if group:
            trigger, offset = (sorted(each[column] for each in group) for column in (1, 2))
            console.print(
                f"batches, {name}: {trigger[len(group) // 2]:,} ms (at most {trigger[-1]:,}), "
                f"of it to find input {offset[len(group) // 2]:,} (at most {offset[-1]:,})"
            )


def _print_sample(samples: Sequence[Sample]) -> None:
    sample = samples[-1]
    names = ("waves", "waves/s", "wave ms p50", "wave ms p95", "driver MB", "jvm MB", "jvm heap MB")
    names += ("largest worker MB", "jvm open files", "jvm threads", "checkpoint files", "spark-local files", "redis MB")
    shown = "  ".join(f"{name} {sample[name]:,.4g}" for name in names if name in sample)
    print(f"{sample['minutes']:6.1f} min  {shown}", flush=True)


def _write(samples: Sequence[Sample], file: TextIO) -> None:
    """Write all samples anew: a quantity may appear late."""
    file.seek(0)
    writer = csv.DictWriter(file, list(dict.fromkeys(name for sample in samples for name in sample)), restval="")
    writer.writeheader()
    writer.writerows({name: round(value, 3) for name, value in sample.items()} for sample in samples)
    file.flush()


def _feed(job: Job, number: int, stopped: threading.Event, driver: "subprocess.Popen[bytes]") -> None:
    """Add a file each second, from `number` on."""
    while driver.poll() is None and not stopped.wait(1):
        add_file(job, number)
        number += 1


if __name__ == "__main__":
    typer.run(main)
