"""Stopping a process of somebody else for a while, as a machine does that hangs."""

import os
import signal
import time
from pathlib import Path

_DEADLINE_SECONDS = 30.0


def stop_process(pid: int) -> None:
    """Send SIGSTOP and return when no thread of the process runs any longer.

    The signal alone promises nothing for the next moment: a thread that runs on another core may still answer.

    Raises:
        TimeoutError: A thread still runs after 30 s.
    """
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while running := [thread for thread in Path(f"/proc/{pid}/task").iterdir() if not _is_stopped(thread)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} was sent SIGSTOP, and {len(running)} threads still run")
        time.sleep(0.001)


def _is_stopped(thread: Path) -> bool:
    try:
        stat = (thread / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return True
    return stat.rpartition(") ")[2][0] in "TtZX"  # after the name, which may hold any character (proc(5))
