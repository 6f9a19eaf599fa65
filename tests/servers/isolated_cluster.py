"""A Spark standalone cluster of isolated machines: they share the network, and no directory unless the test names it.

Each worker runs in a mount namespace and a process namespace of its own (`machine_init`): everything is read-only, and
temporary, working and state directories are private and in memory. A machine can be killed with all its processes at
once; it comes back empty.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import pyspark

from tests.servers.spark_standalone import SparkStandalone, bare_python

MACHINE = "ANCHORBOLT_TEST_MACHINE"
"""The environment variable by which a process knows the number of its machine."""

_INIT = Path(__file__).with_name("machine_init.py")
_FOR_HDFS = ("fsspec", "requests", "urllib3", "idna", "certifi", "charset_normalizer")  # what tasks write there with
_END_S = 60.0
_HOME = "/tmp/machine"  # the working directory of every machine, private


class IsolatedCluster(SparkStandalone):
    """A master beside the tests, and so many machines with a worker of one core each.

    The machines' Python finds Spark, Arrow and what HDFS needs only. `shared` are directories that the machines and the
    driver share by the same path, as a network file system does; the machines see nothing else of what the driver
    writes.
    """

    def __init__(self, folder: Path, *, machines: int = 2, shared: Sequence[Path] = ()) -> None:
        super().__init__(folder, hosts=[f"127.0.0.{number + 2}" for number in range(machines)])
        self._shared = [path.resolve() for path in shared]
        self._installation = folder / "installation"
        self._installation.mkdir()
        self.python = bare_python(self._installation, _FOR_HDFS)
        """The Python of the executors: give it to the driver as PYSPARK_PYTHON."""

    @staticmethod
    def require() -> None:
        """Raise `LookupError` if this machine cannot isolate another one."""
        if sys.platform != "linux" or shutil.which("unshare") is None:
            raise LookupError("isolated machines need Linux and util-linux's `unshare`")
        tried = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            raise LookupError(f"this machine does not let a test isolate another one: {tried.stderr.strip()}")

    @property
    def running(self) -> list[int]:
        """The numbers of the machines that run, from 0."""
        return sorted(number for number, process in self._workers.items() if not process.has_ended)

    def kill(self, number: int) -> None:
        """Kill a machine: all its processes at once, by SIGKILL. What it had on its disks is gone."""
        outside = self._workers.pop(number)
        [first] = _children(outside.pid)
        ended = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        # Linux ends the first process of a namespace after all others.
        assert select.select([ended], [], [], _END_S)[0], f"a process of machine {number} does not end"
        os.close(ended)
        outside.end(signal.SIGKILL)

    def kill_process(self, number: int, kind: str, random: Random) -> bool:
        """Kill one of a machine's processes by SIGKILL; return False if there is none of this kind now.

        Args:
            number: The machine, which goes on running with its disks.
            kind: Part of the process's command line: `CoarseGrainedExecutorBackend` is an executor's JVM,
                `pyspark.daemon` or another name of Spark's daemon its Python workers.
            random: Chooses among several.
        """
        found = sorted(pid for pid in descendants(self._workers[number].pid) if kind in _command_line(pid))
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(random.choice(found), signal.SIGKILL)
            return True
        return False

    def stop(self) -> None:
        for number in self.running:
            self.kill(number)
        super().stop()

    def process(self, number: int) -> int:
        """Return the process id, outside the machine, of the parent of all its processes."""
        return self._workers[number].pid

    def root(self, number: int) -> Path:
        """Return the root directory of a machine that runs, as that machine sees it."""
        [first] = _children(self._workers[number].pid)
        return Path(f"/proc/{first}/root")

    def home(self, number: int) -> Path:
        """Return the working directory of a machine that runs, with the logs of its executors."""
        return self.root(number) / _HOME.lstrip("/")

    def _worker_command(self, number: int) -> list[str]:
        private = {os.path.realpath(path) for path in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")}
        outermost = [path for path in private if not any(Path(path).is_relative_to(each) for each in private - {path})]
        needed = [sys.prefix, sys.base_prefix, str(Path(pyspark.__file__).parent), os.environ.get("JAVA_HOME", "/")]
        needed += [str(self._installation.resolve()), str(_INIT.parent)]
        covered = [path for path in needed if any(Path(path).is_relative_to(each) for each in outermost)]
        layout = {
            "private": sorted(outermost),
            "read_only": covered,
            "shared": [str(path) for path in self._shared],
            "home": _HOME,
        }
        start = [*_unshare(), sys.executable, "-S", str(_INIT), json.dumps(layout)]
        name = ("env", f"{MACHINE}={number}", f"SPARK_LOCAL_IP={self._hosts[number]}")
        return [*start, *name, *self._worker(number, Path(_HOME, "work"))]

    def _environment(self) -> Mapping[str, str]:
        return {**super()._environment(), "TMPDIR": "/tmp", "HOME": _HOME, "SPARK_LOCAL_DIRS": f"{_HOME}/local"}


def _unshare() -> list[str]:
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--mount", *as_root, "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        threads = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    return []


def descendants(pid: int) -> list[int]:
    children = _children(pid)
    return children + [each for child in children for each in descendants(child)]


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
