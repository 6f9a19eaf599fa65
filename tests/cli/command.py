"""The command `anchorbolt` as a process in a session of its own, and what a test waits for in its output."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 280.0
SAID_BY_SPARK = re.compile(r"\d\d/\d\d/\d\d |Traceback | |\t|BrokenPipeError|ConnectionResetError")


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.02)


class Command:
    """A started process; reads its output all the time. On a terminal, both streams are that terminal."""

    def __init__(
        self, arguments: Sequence[str], *, directory: Path, env: dict[str, str] | None = None, terminal: bool = False
    ) -> None:
        self.arguments = list(arguments)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
        self._texts: dict[str, bytes] = {"out": b"", "err": b""}
        master, slave = pty.openpty() if terminal else (-1, -1)

        def own_terminal() -> None:
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        if terminal:
            environment |= {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
            streams = {**dict.fromkeys(streams, slave), "preexec_fn": own_terminal}
        self._process = subprocess.Popen(
            self.arguments, cwd=directory, env=environment, start_new_session=True, **streams
        )
        self.pid = self._process.pid
        self._terminal = master
        if terminal:
            os.close(slave)
            self._files = {"out": master}
        else:
            assert self._process.stdout is not None
            assert self._process.stderr is not None
            self._files = {"out": self._process.stdout.fileno(), "err": self._process.stderr.fileno()}
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._files]
        for reader in self._readers:
            reader.start()

    @property
    def out(self) -> str:
        """Standard output until now."""
        return self._texts["out"].decode(errors="replace")

    @property
    def err(self) -> str:
        """Standard error until now."""
        return self._texts["err"].decode(errors="replace")

    @property
    def said_last(self) -> str:
        """The last line of standard error that is the command's own.

        Java may still log as it ends, and PySpark's daemon complain of a pipe that Java has closed.
        """
        return [line for line in self.err.splitlines() if line and not SAID_BY_SPARK.match(line)][-1]

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until standard output holds a text, so many times."""
        wait_until(lambda: self.out.count(text) >= times or self.has_ended, f"{text!r} from {self!r}")
        assert self.out.count(text) >= times, repr(self)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process alone."""
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and all that it started and that are still in its group."""
        os.killpg(self.pid, number)

    def type(self, keys: bytes) -> None:
        """Type on its terminal."""
        os.write(self._terminal, keys)

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        try:
            code = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end: {self!r}") from None
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code

    def session(self) -> list[int]:
        """Return the processes of its session that are alive: Java and Python's workers among them."""
        folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
        stats = {folder.name: _read_or_empty(folder / "stat") for folder in folders}
        fields = {name: stat.rpartition(")")[2].split() for name, stat in stats.items() if stat}
        return [int(name) for name, each in fields.items() if int(each[3]) == self.pid and each[0] != "Z"]

    def command_lines(self) -> str:
        """Return the arguments of all processes of its session, as `ps` shows them."""
        paths = [Path(f"/proc/{process}/cmdline") for process in self.session()]
        return "\n".join(_read_or_empty(path).replace("\0", " ") for path in paths)

    def close(self) -> None:
        """Kill what is left of its session."""
        for process in self.session():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        for reader in self._readers:
            reader.join(PATIENCE_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        if self._terminal >= 0:
            os.close(self._terminal)

    def __repr__(self) -> str:
        return f"{' '.join(self.arguments)}\n--- out\n{self.out}\n--- err\n{self.err}"

    def _read(self, name: str) -> None:
        while True:
            try:
                data = os.read(self._files[name], 65536)
            except OSError:  # a terminal that nobody has open any more
                return
            if not data:
                return
            self._texts[name] += data


def _read_or_empty(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # no process, or it has ended meanwhile
        return ""


def run_arguments(*arguments: str) -> list[str]:
    """Return the command line of `anchorbolt run` with these arguments."""
    return [sys.executable, "-m", "anchorbolt", "run", *arguments]
