"""What a topology loses while 200 scrapes and loads of the page come each second.

    make bench-page
    make bench-page OPTIONS="--tasks 40 --rate 200 --rounds 20"

A topology counts keys on `local[2]` as fast as it can. In every other period a client asks in turn for the files of the
page, for what each view asks, and for the metrics. The client is a process of its own, and takes its share of the two
cores as well. Each line shows the tuples per second of both periods; the ratio is the median of the lines' own ratios,
with the interval that holds it with 95 %. Throughput of periods differs by a tenth and more, so many pairs are needed.
"""

import multiprocessing
import socket
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from anchorbolt.engine import SparkCluster, WaveReport
from anchorbolt.engine.spark.session import build_session
from anchorbolt.ui import UiServer
from benchmarks.ratios import interval_of_median
from benchmarks.worker_memory import topology

_NAME = "worker-memory"
_BASE = f"/api/v1/topology/{_NAME}"
_PATHS = (
    "/metrics",
    "/",
    "/static/main.js",
    "/static/style.css",
    f"{_BASE}/now",
    f"{_BASE}?window=600",
    f"{_BASE}/graph?window=600",
    f"{_BASE}/waves?last=100",
    f"{_BASE}/component/count?window=600",
    f"{_BASE}/failures",
)


_WARM_UP_S = 40.0  # Java compiles on for that long
_MOST_AT_ONCE = 1 << 20
_CONNECTIONS = 4  # one alone waits for answers that threads of the job delay


class Asked(NamedTuple):
    """What a client has done."""

    requests: int
    slowest_ms: float
    cpu_s: float


def ask(host: str, port: int, rate: float, seconds: float) -> Asked:
    """Send so many requests a second."""
    cpu = time.process_time()
    with ThreadPoolExecutor(_CONNECTIONS) as threads:
        asked = [threads.submit(_ask, host, port, rate / _CONNECTIONS, seconds) for _ in range(_CONNECTIONS)]
    requests, slowest = zip(*(each.result() for each in asked), strict=True)
    return Asked(sum(requests), max(slowest) * 1000, time.process_time() - cpu)


def _ask(host: str, port: int, rate: float, seconds: float) -> tuple[int, float]:
    """Send requests on one connection; return how many, and the seconds of the slowest answer."""
    began, slowest, number = time.monotonic(), 0.0, 0
    with socket.create_connection((host, port), timeout=10) as connection:
        while (now := time.monotonic()) < began + seconds:
            due = began + number / rate
            if now < due:
                time.sleep(due - now)
            sent = time.monotonic()
            path = _PATHS[number % len(_PATHS)]
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            _take_answer(connection, path)
            slowest = max(slowest, time.monotonic() - sent)
            number += 1
    return number, slowest


def _take_answer(connection: socket.socket, path: str) -> None:
    """Read an answer. `http.client` would take three times as long, on the cores that the topology needs."""
    answer = connection.recv(_MOST_AT_ONCE)
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"{path} was answered with {head[:100]!r}")
    _, _, length = head.lower().partition(b"content-length: ")
    left = int(length.partition(b"\r")[0]) - len(body)
    while left > 0:
        left -= len(connection.recv(_MOST_AT_ONCE))


def main(
    tasks: Annotated[int, typer.Option(min=1)] = 4,
    rate: Annotated[float, typer.Option(min=1, help="Requests a second.")] = 200,
    period: Annotated[float, typer.Option(min=1, help="Seconds of a period.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Pairs of periods.")] = 40,
) -> None:
    """Measure throughput with and without requests."""
    console, waves = Console(), list[tuple[float, int]]()

    def on_wave(report: WaveReport) -> None:
        waves.append((time.monotonic(), report.tuples_in["count"]))

    def throughput(began: float) -> float:
        """Return the tuples per second of the whole waves since a moment."""
        ended = [each for each in waves if each[0] >= began]
        return sum(tuples for _, tuples in ended[1:]) / (ended[-1][0] - ended[0][0])

    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home:
        spark = build_session("page-load", "local[2]")
        server = UiServer(_NAME, port=0)
        host, port = server.address.removeprefix("http://").rstrip("/").split(":")
        conf = {
            "topology.state.provider.config": {"directory": f"{home}/state"},
            "topology.checkpoint.location": f"{home}/checkpoint",
            "topology.state.checkpoint.interval.ms": 100,
        }
        handle = SparkCluster(spark).submit(topology(tasks, 1000, 100_000), conf, on_wave=on_wave)
        server.show(handle)
        ratios, slowest, cpu = list[float](), list[float](), list[float]()
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as client:
            client.submit(ask, host, int(port), rate, _WARM_UP_S).result()
            for number in range(rounds):
                figures = {}
                for asks in (True, False) if number % 2 else (False, True):
                    began = time.monotonic()
                    if asks:
                        asked = client.submit(ask, host, int(port), rate, period).result()
                        slowest.append(asked.slowest_ms)
                        cpu.append(asked.cpu_s / period)
                    else:
                        time.sleep(period)
                    figures[asks] = throughput(began)
                ratios.append(figures[True] / figures[False])
                console.print(f"{figures[False]:,.0f} tuples/s, with {asked.requests} requests {figures[True]:,.0f}")
        handle.stop()
        server.close()
        spark.stop()
    low, high = interval_of_median(ratios)
    console.print(f"ratio: {statistics.median(ratios):.3f} ({low:.3f} to {high:.3f} with 95 %)")
    console.print(f"slowest answer: {max(slowest):.0f} ms; the client took {statistics.mean(cpu):.1%} of a core")


if __name__ == "__main__":
    typer.run(main)
