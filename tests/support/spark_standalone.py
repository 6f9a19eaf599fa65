"""A real Spark standalone cluster on loopback: a master and workers, each a process of its own."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

_DEADLINE_S = 90.0
_BARE_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")


class SparkStandalone:
    """Starts a master, and a worker on each of `hosts`, which are loopback; stops them by their process ids."""

    def __init__(self, folder: Path, *, hosts: Sequence[str] = ("127.0.0.1", "127.0.0.1")) -> None:
        self._folder = folder
        self._hosts = hosts
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self) -> None:
        master = self._spawn(
            "master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
        )
        self.url = self._wait_for(master, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number, host in enumerate(self._hosts):
            log = self._spawn(
                f"worker{number}",
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                host,
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--work-dir",
                str(self._folder / f"work{number}"),
                self.url,
            )
            self._wait_for(log, r"Successfully registered with master")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)

    def _spawn(self, name: str, *command: str) -> Path:
        home = Path(pyspark.__file__).parent
        log = self._folder / f"{name}.log"
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment.pop("PYTHONPATH", None)  # executors get none of the driver's
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                )
            )
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        process = self._processes[-1]
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline and process.poll() is None:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found.group(found.lastindex or 0)
            time.sleep(0.05)
        raise RuntimeError(f"no line like {pattern!r} in {log}:\n{log.read_text(errors='replace')[-4000:]}")


def bare_python(folder: Path) -> Path:
    """Make a Python command that finds Spark and Arrow, and neither Anchorbolt nor what Anchorbolt needs."""
    packages = folder / "bare"
    packages.mkdir()
    for name in _BARE_PACKAGES:
        source = next((Path(place) / name for place in sys.path if place and (Path(place) / name).exists()), None)
        if source is not None:
            (packages / name).symlink_to(source)
    command = folder / "bare-python"
    # -S leaves out site-packages; what Spark puts on PYTHONPATH is kept.
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    command.chmod(0o755)
    return command
