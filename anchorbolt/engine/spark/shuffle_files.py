"""Removes what a job has shuffled as soon as its round has ended, from the executors' disks and the driver's memory.

Spark itself removes it when Java collects the garbage, perhaps half an hour later; until then, it skips stages of a
frame that runs again if their output still exists: the output of attempts that were rolled back.
"""

import logging
import queue
import threading
from concurrent.futures import Future
from functools import cache

from pyspark.sql import DataFrame

_log = logging.getLogger("anchorbolt.engine")


class ShuffleFiles:
    """What the frames of one `RoundJobs` have shuffled. A thread beside the waves removes it."""

    def __init__(self) -> None:
        self._removals: list[tuple[DataFrame, Future[None]]] = []  # that may still be under way

    def remove(self, frame: DataFrame) -> None:
        """Begin to remove what the frame's job has shuffled. It must have ended."""
        removal: Future[None] = Future()
        self._removals = [each for each in self._removals if not each[1].done() or each[1].exception()]
        self._removals.append((frame, removal))
        _waiting().put((frame, removal))

    def wait_for(self, frame: DataFrame) -> None:
        """Wait until nothing is left of what the frame's jobs have shuffled. Raises what has ended the removal."""
        mine = [removal for each, removal in self._removals if each is frame]
        self._removals = [each for each in self._removals if each[0] is not frame]
        for removal in mine:
            removal.result()


@cache
def _waiting() -> queue.SimpleQueue[tuple[DataFrame, Future[None]]]:
    """Start the thread. It is a daemon: a removal that hangs does not keep the process from its end."""
    waiting = queue.SimpleQueue[tuple[DataFrame, Future[None]]]()
    threading.Thread(target=_work, args=(waiting,), name="anchorbolt-shuffles", daemon=True).start()
    return waiting


def _work(waiting: queue.SimpleQueue[tuple[DataFrame, Future[None]]]) -> None:
    while True:
        frame, removal = waiting.get()
        try:
            # Blocking: a removal that is late would remove what the next round of the same frame has shuffled.
            frame._jdf.queryExecution().toRdd().cleanShuffleDependencies(True)
        except Exception as error:  # Spark has ended, mostly
            _log.info("what a round has shuffled could not be removed: %s", error)
            removal.set_exception(error)
        else:
            removal.set_result(None)
        del frame, removal
