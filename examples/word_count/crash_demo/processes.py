"""Finds the processes of one session in Linux's /proc: a Spark driver, its JVM, Python's daemon and its workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Process", "python_workers", "session_of"]

_DAEMON = b"pyspark.daemon"


@dataclass(frozen=True)
class Process:
    """A process at the time of the search.

    Attributes:
        pid: Its id.
        parent: Its parent's id.
        state: One letter, `R` for running.
        is_daemon: Whether it is `pyspark.daemon`, or a worker, which is a fork of it.
    """

    pid: int
    parent: int
    state: str
    is_daemon: bool


def session_of(leader: int) -> list[Process]:
    """Return all living processes of the session of `leader`, which may have ended."""
    return list(_living(leader))


def python_workers(processes: list[Process]) -> list[Process]:
    """Return the workers among a session's processes: the children of its `pyspark.daemon`."""
    daemons = {process.pid for process in processes if process.is_daemon}
    return [process for process in processes if process.is_daemon and process.parent in daemons]


def _living(session: int) -> Iterator[Process]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # The program's name is in parentheses and may contain any character, so count from the last parenthesis.
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        state, parent, its_session = fields[0], int(fields[1]), int(fields[3])
        if its_session == session and state not in "ZX":
            yield Process(int(folder.name), parent, state, _DAEMON in command)
