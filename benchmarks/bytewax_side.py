"""Bytewax's side: the dataflow in `peers/`, one process for each core, with a snapshot of its state after each batch.

Bytewax is installed in an environment of its own, which set-up makes: `tools/own_environment.py`.
"""

import json
import os
import pickle
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from benchmarks.contestant import BatchFigures, Counts, Place
from benchmarks.workloads import LARGE, TASKS, Workload

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))

from own_environment import BYTEWAX  # (the tools are scripts, not a package)

__all__ = ["BytewaxBatchesSide", "BytewaxSide"]

_DATAFLOW = Path(__file__).resolve().parent / "peers" / "bytewax_word_count.py"


class BytewaxSide:
    """Bytewax as a contestant, with a call for each row."""

    name = "Bytewax, rows"
    works_on = LARGE
    dataflow = _DATAFLOW
    by_rows = True

    def __init__(self, spark: None, workload: Workload, place: Place) -> None:
        """See `ContestantKind`."""
        if workload.files != TASKS:
            raise ValueError(f"each of {TASKS} processes reads one file of a batch, which has {workload.files}")
        self._text = place.text
        self._recovery = place.directory / "recovery"
        self._times = place.directory / "times"
        for made in (self._recovery, self._times):
            made.mkdir(parents=True)
        subprocess.run([self._python(), "-m", "bytewax.recovery", self._recovery, str(TASKS)], check=True)

    @staticmethod
    def is_installed() -> bool:
        return BYTEWAX.python() is not None

    @staticmethod
    def session(master: str) -> None:
        return None

    def run(self) -> list[BatchFigures]:
        """The time of a batch is that until Bytewax asks for the next one, when the snapshots are committed."""
        addresses = ";".join(f"localhost:{port}" for port in _free_ports(TASKS))
        # Snapshots after each call of the source; those of earlier batches are removed.
        options = ["-a", addresses, "-r", self._recovery, "-s", "0", "-b", "0"]
        processes = []
        for number in range(TASKS):
            dataflow = f"{self.dataflow}:dataflow({', '.join(map(repr, self.arguments(number)))})"
            command = [self._python(), "-m", "bytewax.run", dataflow, "-i", str(number), *options]
            processes.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": ""}))
        codes = [process.wait() for process in processes]
        if any(codes):
            raise RuntimeError(f"the processes of Bytewax ended with {codes}; see its log")
        calls = [json.loads((self._times / f"{number}.json").read_text()) for number in range(TASKS)]
        begun = [max(began for _, _, began in call) for call in zip(*calls, strict=True)]
        return [
            BatchFigures(parts[0][0], sum(lines for _, lines, _ in parts), (after - before) * 1000, {})
            for parts, before, after in zip(zip(*calls, strict=True), begun, begun[1:], strict=False)
        ]

    def arguments(self, number: int) -> tuple[Any, ...]:
        """Return the arguments of the dataflow in the process of this number."""
        return str(self._text), str(self._times), number, TASKS, self.by_rows

    def counts(self) -> Counts:
        """Read the snapshots."""
        counts = {}
        for partition in self._recovery.glob("*.sqlite3"):
            with closing(sqlite3.connect(partition)) as connection:
                rows = (
                    "SELECT state_key, ser_change FROM snaps WHERE step_id LIKE 'word-count.count%' ORDER BY snap_epoch"
                )
                for word, pickled in connection.execute(rows):
                    counts[word] = pickle.loads(pickled)  # noqa: S301 - what our dataflow wrote
        return counts

    @staticmethod
    def _python() -> str:
        return str(BYTEWAX.python())


class BytewaxBatchesSide(BytewaxSide):
    """The same, with a call for each batch."""

    name = "Bytewax, batches"
    by_rows = False


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("localhost", 0))) for _ in range(number)]
        return [each.getsockname()[1] for each in sockets]
