"""`Hosts` of real worker processes on this machine, without Spark."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.spark.intake.client import IntakeAddress
from anchorbolt.engine.workers.links import Address
from anchorbolt.errors import WaveFailed
from tests.engine.workers.processes.worker import Orders

ROOT = Path(__file__).parents[4]
_CLOSE_S = 30.0


class ProcessHosts:
    """Keeps one process for each slot, and starts it again when it ends.

    Attributes:
        emitters: Where the driver answers emitters.
        proxies: Where workers get the port under which they register; None if they register their own.
        abandons: Whether `end` leaves the old process as it is, as a Spark whose executor does not answer.
        started: All processes that were ever started, by slot, oldest first.
        late: The slots that had to be killed at the end.
    """

    def __init__(self, plan: bytes, slots: int, folder: Path) -> None:
        self.emitters: IntakeAddress | None = None
        self.proxies: tuple[str, int] | None = None
        self.abandons = False
        self.started: list[list[subprocess.Popen[bytes]]] = [[] for _ in range(slots)]
        self.late: list[int] = []
        self._plan, self._folder = plan, folder
        self._incarnations = itertools.count(1)
        self._ended = [threading.Event() for _ in range(slots)]  # the current process must not be waited for
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, address: Address, gone: Callable[[str], None]) -> None:
        self._driver = address
        for slot in range(len(self.started)):
            thread = threading.Thread(target=self._keep, args=(slot,), name=f"test-worker-{slot}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def why_lost(self, slot: int, incarnation: int, txid: int, unheard: Sequence[TaskKey]) -> WaveFailed | None:
        return None

    def end(self, slot: int) -> None:
        if self.abandons:
            self._ended[slot].set()
        else:
            self.kill(slot)

    def close(self) -> None:
        self._closed.set()
        until = time.monotonic() + _CLOSE_S
        for slot, thread in enumerate(self._threads):
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.late.append(slot)
                self._ended[slot].set()
                self.kill(slot)

    def kill(self, slot: int, number: int = signal.SIGKILL) -> int:
        """Send a signal to the current process of a slot; return its id."""
        process = self.started[slot][-1]
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        return process.pid

    def pid(self, slot: int) -> int:
        return self.started[slot][-1].pid

    def end_all(self) -> None:
        """Kill what is left: for the end of a test."""
        self._closed.set()
        for process in itertools.chain.from_iterable(self.started):
            if process.poll() is None:
                process.kill()
            process.wait()

    def logs(self) -> str:
        """Return all that the workers have written."""
        return "".join(path.read_text(errors="replace") for path in sorted(self._folder.glob("worker-*.log")))

    def _keep(self, slot: int) -> None:
        while not self._closed.is_set():
            self._ended[slot].clear()
            process = self._started(slot)
            while process.poll() is None and not self._ended[slot].wait(0.02):
                pass

    def _started(self, slot: int) -> subprocess.Popen[bytes]:
        incarnation = next(self._incarnations)
        orders = Orders(
            self._plan,
            len(self.started),
            self._driver,
            slot,
            incarnation,
            self.emitters,
            str(self._folder / "spilled"),
            self.proxies,
        )
        (self._folder / "spilled").mkdir(exist_ok=True)
        with (self._folder / f"worker-{slot}-{incarnation}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.engine.workers.processes.worker"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin as file:
            file.write(pickle.dumps(orders))
        self.started[slot].append(process)
        return process
