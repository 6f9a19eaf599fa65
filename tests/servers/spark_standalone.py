"""A real Spark standalone cluster on loopback: a master and workers, each a process of its own."""

import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark

from tests.servers.server_process import OwnedProcess
from tests.support import spark_jvm
from tests.support.stores import WORKERS

CORES = "2" if WORKERS else "1"
"""Of each of Spark's workers; ours that stay hold theirs, and jobs beside them need another one."""

_DEADLINE_S = 90.0
_REGISTERED = r"Successfully registered with master"
_BARE_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")


class SparkStandalone:
    """Starts a master, and a worker on each of `hosts`, which are loopback; stops them by their process ids."""

    deadline_s = _DEADLINE_S

    def __init__(self, folder: Path, *, hosts: Sequence[str] = ("127.0.0.1", "127.0.0.1")) -> None:
        self._folder = folder
        self._hosts = hosts
        self._master: OwnedProcess | None = None
        self._workers: dict[int, OwnedProcess] = {}
        self.url = ""

    def start(self) -> None:
        log = self._folder / "master.log"
        self._master = self._spawn(self._command("master.Master", "--host", "127.0.0.1", "--port", "0"), log)
        self.url = self._wait_for(self._master, log, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        self.start_workers(*range(len(self._hosts)))

    def start_workers(self, *numbers: int) -> None:
        """Start workers that do not run, and return when the master knows them."""
        logs = {number: self._folder / f"worker{number}.log" for number in numbers}
        said = {number: log.stat().st_size if log.exists() else 0 for number, log in logs.items()}
        for number, log in logs.items():
            self._workers[number] = self._spawn(self._worker_command(number), log)
        for number, log in logs.items():
            self._wait_for(self._workers[number], log, _REGISTERED, after=said[number])

    def stop(self) -> None:
        for process in (*self._workers.values(), self._master):
            if process is not None:
                process.end(signal.SIGTERM)
        self._workers.clear()

    def _worker_command(self, number: int) -> list[str]:
        return self._worker(number, self._folder / f"work{number}")

    def _worker(self, number: int, work_folder: Path) -> list[str]:
        options = ("--host", self._hosts[number], "--cores", CORES, "--memory", "1g", "--work-dir", str(work_folder))
        return self._command("worker.Worker", *options, self.url)

    def _command(self, main: str, *arguments: str) -> list[str]:
        spark_class = str(_SPARK_HOME / "bin" / "spark-class")
        return [spark_class, f"org.apache.spark.deploy.{main}", "--webui-port", "0", *arguments]

    def _environment(self) -> Mapping[str, str]:
        environment = {**os.environ, "SPARK_HOME": str(_SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment.pop("PYTHONPATH", None)  # executors get none of the driver's
        environment["SPARK_DAEMON_JAVA_OPTS"] = spark_jvm.java_options()
        return environment

    def _spawn(self, command: Sequence[str], log: Path) -> OwnedProcess:
        return OwnedProcess(command, log, env=self._environment())

    def _wait_for(self, process: OwnedProcess, log: Path, pattern: str, *, after: int = 0) -> str:
        """Return what a process has written to its log that matches, ignoring the first `after` bytes."""
        deadline = time.monotonic() + self.deadline_s
        while time.monotonic() < deadline and not process.has_ended:
            found = re.search(pattern, log.read_bytes()[after:].decode(errors="replace"))
            if found:
                return found.group(found.lastindex or 0)
            time.sleep(0.05)
        raise RuntimeError(f"no line like {pattern!r} in {log}:\n{log.read_text(errors='replace')[-4000:]}")


_SPARK_HOME = Path(pyspark.__file__).parent


def bare_python(folder: Path, more: Sequence[str] = ()) -> Path:
    """Make a Python command that finds Spark, Arrow and `more` packages, and not Anchorbolt nor what else it needs."""
    packages = folder / "bare"
    packages.mkdir()
    for name in (*_BARE_PACKAGES, *more):
        source = next((Path(place) / name for place in sys.path if place and (Path(place) / name).exists()), None)
        if source is not None:
            (packages / name).symlink_to(source)
    command = folder / "bare-python"
    # -S leaves out site-packages; what Spark puts on PYTHONPATH is kept.
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec "{sys.executable}" -S "$@"\n')
    command.chmod(0o755)
    return command
