"""The resident memory of processes: of this one, of its JVM and of Spark's Python workers. Linux only."""

import os
from contextlib import suppress
from pathlib import Path


def memory_mb(pid: int | str = "self", *, peak: bool = False) -> float:
    """Return the resident memory of a process, or the most that it ever had; 0 if it is gone."""
    name = "VmHWM:" if peak else "VmRSS:"
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def _children(pid: int) -> list[int]:
    """Return the processes that a process has started; none if it is gone."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def java_below(pid: int) -> int | None:
    """Return the JVM that a process has started."""
    return next((child for child in _children(pid) if Path(f"/proc/{child}/comm").read_text().strip() == "java"), None)


def worker_mb() -> float:
    """Return the resident memory of the largest worker in this process's session; 0 if there is none.

    A worker outlives its daemon, and is no descendant of this process any more then.
    """
    session, found = os.getsid(0), [0.0]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and "pyspark.daemon" in (folder / "cmdline").read_text():
                    found.append(memory_mb(folder.name))
    return max(found)
