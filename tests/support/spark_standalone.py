"""A real Spark standalone cluster on loopback: a master and workers, each a process of its own."""

import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tests.support.server_process import OwnedProcess

_DEADLINE_S = 90.0
_BARE_PACKAGES = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "numpy.libs", "dateutil", "pytz", "tzdata", "six.py")


class SparkStandalone:
    """Starts a master, and a worker on each of `hosts`, which are loopback; stops them by their process ids."""

    def __init__(self, folder: Path, *, hosts: Sequence[str] = ("127.0.0.1", "127.0.0.1")) -> None:
        self._folder = folder
        self._hosts = hosts
        self._processes: list[OwnedProcess] = []
        self.url = ""

    def start(self) -> None:
        master = self._spawn("master", "master.Master", "--host 127.0.0.1 --port 0")
        self.url = self._wait_for(master, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        for number, host in enumerate(self._hosts):
            options = f"--host {host} --cores 1 --memory 1g"
            work = ("--work-dir", str(self._folder / f"work{number}"))
            log = self._spawn(f"worker{number}", "worker.Worker", options, *work, self.url)
            self._wait_for(log, r"Successfully registered with master")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.end(signal.SIGTERM)

    def _spawn(self, name: str, main: str, options: str, *more: str) -> Path:
        home = Path(pyspark.__file__).parent
        log = self._folder / f"{name}.log"
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment.pop("PYTHONPATH", None)  # executors get none of the driver's
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", "--webui-port", "0"]
        self._processes.append(OwnedProcess([*command, *options.split(), *more], log, env=environment))
        return log

    def _wait_for(self, log: Path, pattern: str) -> str:
        process = self._processes[-1]
        deadline = time.monotonic() + _DEADLINE_S
        while time.monotonic() < deadline and not process.has_ended:
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
