"""The processes of a run that die: drivers with their JVM and their workers."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.crash.deaths.plan import Victim
from tests.support import spark_jvm

_ROOT = Path(__file__).resolve().parents[3]
_PATIENCE_S = 60.0


class Driver:
    """One start of a job, in a session of its own, with its output in a file."""

    def __init__(
        self, command: Sequence[str], log: Path, *, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a command in a folder, with more variables in its environment."""
        self.log = log
        self.was_killed = False
        self.was_stopped = False
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **spark_jvm.environment(), "PYTHONPATH": str(_ROOT), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    @property
    def text(self) -> str:
        return self.log.read_text(errors="backslashreplace")

    def kill(self, victim: Victim, random: Random) -> bool:
        """Kill it or one of its processes; return False if there is none like that now."""
        if self.exit_code is not None:
            return False
        if victim in (Victim.DRIVER, Victim.DRIVER_AND_JVM):
            self.was_killed = True
            self._process.kill()
            if victim is Victim.DRIVER_AND_JVM:
                self.end_session()
            self._process.wait(_PATIENCE_S)
            return True
        if victim is Victim.STOP:
            self.was_stopped = True
            self._process.terminate()
            return True
        daemons, workers = self._python_processes()
        # Where a daemon was killed before, there may be no other until all its workers have ended.
        found = daemons or workers if victim is Victim.DAEMON else workers
        if not found:
            return False
        with suppress(ProcessLookupError):
            os.kill(random.choice(found), signal.SIGKILL)
            return True
        return False

    def end_session(self) -> None:
        """Kill all that it has started and that is still there."""
        while alive := self._session():
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._process.poll() is None:
                self._process.wait(_PATIENCE_S)

    def _session(self) -> dict[int, int]:
        """Return the living processes of its session, each with its parent."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with suppress(OSError):
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self.pid and fields[0] != "Z":
                        found[int(folder.name)] = int(fields[1])
        return found

    def _python_processes(self) -> tuple[list[int], list[int]]:
        """Return Spark's daemons, whose parent is Java, and the workers that they forked; sorted.

        Workers outlive a daemon that is killed.
        """
        session = self._session()
        found = []
        for pid in session:
            with suppress(OSError):
                if "pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(pid)
        daemons = {pid for pid in found if session[pid] in session and session[pid] not in found}
        return sorted(daemons), sorted({*found} - daemons)
