"""Removes a job's shuffled data after its round, from the executors' disks and the driver's memory.

Spark itself removes the data when Java collects the garbage, perhaps half an hour later. If the same frame runs again
before that, Spark skips its stages and reuses their output: that of attempts which were rolled back.
"""

import logging
import queue
import threading
from concurrent.futures import Future
from functools import cache

from pyspark.sql import DataFrame

_log = logging.getLogger("anchorbolt.engine")


class ShuffleFiles:
    """The shuffled data of one `RoundJobs`. A background thread removes it."""

    def __init__(self) -> None:
        self._removals: list[tuple[DataFrame, Future[None]]] = []  # perhaps unfinished

    def remove(self, frame: DataFrame) -> None:
        """Begin to remove the shuffled data of the frame's job, which must have ended."""
        removal: Future[None] = Future()
        self._removals = [each for each in self._removals if not each[1].done() or each[1].exception()]
        self._removals.append((frame, removal))
        _waiting().put((frame, removal))

    def wait_for(self, frame: DataFrame) -> None:
        """Wait until the shuffled data of the frame's jobs is gone. Raises the error of a failed removal."""
        mine = [removal for each, removal in self._removals if each is frame]
        self._removals = [each for each in self._removals if each[0] is not frame]
        for removal in mine:
            removal.result()


@cache
def _waiting() -> queue.SimpleQueue[tuple[DataFrame, Future[None]]]:
    """Start the thread. It is a daemon: a removal that hangs does not keep the process alive."""
    waiting = queue.SimpleQueue[tuple[DataFrame, Future[None]]]()
    threading.Thread(target=_work, args=(waiting,), name="anchorbolt-shuffles", daemon=True).start()
    return waiting


def _work(waiting: queue.SimpleQueue[tuple[DataFrame, Future[None]]]) -> None:
    while True:
        frame, removal = waiting.get()
        try:
            # Blocking: a late removal would remove the data of the next round of the same frame.
            frame._jdf.queryExecution().toRdd().cleanShuffleDependencies(True)
        except Exception as error:  # mostly because Spark has ended
            _log.info("what a round has shuffled could not be removed: %s", error)
            removal.set_exception(error)
        else:
            removal.set_result(None)
        del frame, removal
