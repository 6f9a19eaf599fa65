"""The job in a process and session of its own, so that the demo can find and end all processes that it starts."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from crash_demo.events import Ended, Recovered, WaveCommitted, from_line
from crash_demo.processes import python_workers, session_of

__all__ = ["DemoError", "JobProcess"]

_SCRIPT = Path(__file__).resolve().parent.parent / "demo_job.py"
_LONGEST_S = 900.0
_WORKER_S = 60.0
_GONE_S = 60.0
_LOOK_S = 0.001
_LOG_SHOWN = 3000


class DemoError(Exception):
    """The demo cannot continue, or a check failed."""


class JobProcess:
    """One start of the job. The end of its `with` block kills all its remaining processes by their process ids."""

    def __init__(self, conf: Path, work: Path) -> None:
        """Start the job.

        Args:
            conf: Its configuration, a JSON file.
            work: The demo's work directory; Spark and the job write only below it.
        """
        self._log = work / "job.log"
        scratch = work / "spark"
        scratch.mkdir(exist_ok=True)
        options = f"--conf spark.ui.enabled=false --conf spark.driver.extraJavaOptions=-Djava.io.tmpdir={scratch}"
        environment = {
            "TMPDIR": str(scratch),
            "SPARK_LOCAL_DIRS": str(scratch),
            "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell",
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_SCRIPT), str(conf)],
                cwd=work,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._watchdog = threading.Timer(_LONGEST_S, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()
        self._killed = False

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._watchdog.cancel()
        while living := session_of(self._process.pid):
            for process in living:
                _send(process.pid, signal.SIGKILL)
            time.sleep(_LOOK_S)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process id of the driver."""
        return self._process.pid

    def events(self) -> Iterator[Recovered | WaveCommitted | Ended]:
        """Yield the driver's events until it has ended.

        Raises:
            DemoError: It ended by itself before it was done.
        """
        assert self._process.stdout is not None
        done = False
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break  # the driver was killed while it wrote this line
            event = from_line(line)
            done = done or isinstance(event, Ended)
            yield event
        code = self._process.wait()
        if not self._killed and (code != 0 or not done):
            raise DemoError(
                f"the job ended by itself with exit code {code}; its log ({self._log}) ends with:\n{self._log_end()}"
            )

    def kill_driver(self) -> float:
        """Kill the driver with SIGKILL; return the time, of the monotonic clock in seconds."""
        self._killed = True
        self._process.kill()
        return time.monotonic()

    def kill_worker(self, chance: random.Random) -> tuple[int, float]:
        """Kill one of the running Python workers with SIGKILL; return its process id and the time.

        Raises:
            DemoError: No worker ran for a long time.
        """
        deadline = time.monotonic() + _WORKER_S
        while time.monotonic() < deadline:
            at_work = [each for each in python_workers(session_of(self.pid)) if each.state == "R"]
            if at_work:
                victim = chance.choice(sorted(each.pid for each in at_work))
                if _send(victim, signal.SIGKILL):
                    return victim, time.monotonic()
            time.sleep(_LOOK_S)
        raise DemoError(f"no Python worker of the driver {self.pid} ran within {_WORKER_S:.0f} s")

    def wait_until_gone(self) -> float:
        """Wait until the killed driver's JVM and workers have ended by themselves; return the seconds it took.

        Raises:
            DemoError: Something is left over.
        """
        started = time.monotonic()
        while living := session_of(self.pid):
            if time.monotonic() - started > _GONE_S:
                raise DemoError(f"processes {', '.join(str(each.pid) for each in living)} outlived the killed driver")
            time.sleep(_LOOK_S * 10)
        return time.monotonic() - started

    def _log_end(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_SHOWN:]


def _send(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
