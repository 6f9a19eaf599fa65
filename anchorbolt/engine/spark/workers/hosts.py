"""Hosts the workers of a run in Spark: each is the only task of a job, which lasts as long as the run.

A job for each worker, because a job whose task is lost fails as a whole on a local master, and elsewhere after
`spark.task.maxFailures` losses. Here the job of a lost worker is submitted again, and the others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.intake.client import IntakeAddress
from anchorbolt.engine.spark.job_failures import cause_in, failure_in
from anchorbolt.engine.spark.remote import RemoteWorker
from anchorbolt.engine.spark.runs import live_runs
from anchorbolt.engine.spark.workers.entry import Argument
from anchorbolt.engine.workers.links import Address
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.errors import ConfigError, WaveFailed
from anchorbolt.util.messages import begun

_log = logging.getLogger("anchorbolt.engine")

_ALL_CANCELLED = "as part of cancellation of all jobs"
_JVM_LOST = (Py4JNetworkError, ConnectionError)
_CLOSE_S = 5.0
_KNOWN_S = 3.0  # how long Spark may take to say why a task was lost
_POLL_S = 0.02
_PAUSES_S = (0.0, 0.2, 1.0, 5.0)  # before a worker starts again that has lasted for less than `_LONG_S`
_LONG_S = 1.0
_EXECUTORS_S = 15.0  # how long the executors of a cluster may take to come


def check_slots(session: SparkSession, workers: int, others: int) -> None:
    """Raise `ConfigError` if Spark cannot run all workers and `others` tasks beside them, and this driver's other runs.

    On a cluster, wait a while for its executors. With dynamic allocation, Spark asks for as many as it needs.
    """
    context = session.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled") == "true":
        return
    held, shared = live_runs.needs()
    others = max(others, shared)
    is_local = (context.master or "").startswith("local")
    more = f"--master 'local[{held + workers + others}]'" if is_local else "--num-executors and --executor-cores"
    until = time.monotonic() + (0.0 if is_local else _EXECUTORS_S)
    while (slots := context.defaultParallelism) < held + workers + others:
        if time.monotonic() >= until:
            break
        time.sleep(_POLL_S)
    else:
        return
    beside = " and at least one for the jobs beside them, which read the sources or write the sinks" if others else ""
    beside_runs = f", of which the workers of other runs in this driver hold {held}" if held else ""
    raise ConfigError(
        f"topology.workers is {workers}, which needs {workers} task slots{beside}, but Spark has {slots}{beside_runs}. "
        f"Set it to at most {max(0, slots - held - others)}, or give Spark more cores: {more}.",
        key="topology.workers",
    )


class SparkHosts:
    """`anchorbolt.engine.workers.fleet.Hosts` on Spark."""

    def __init__(self, session: SparkSession, plan: ExecutionPlan, pickled: bytes, slots: int) -> None:
        self.emitters: IntakeAddress | None = None  # where the driver answers emitters; set before `start`
        self.calls: IntakeAddress | None = None  # where workers report long calls; set before `start`
        self._session = session
        self._plan = plan
        self._pickled = pickled
        self._slots = slots
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, address: Address, gone: Callable[[str], None]) -> None:
        self._gone = gone
        for slot in range(self._slots):
            argument: Argument = slot, self._slots, address, self.emitters, self.calls
            worker = RemoteWorker(self._pickled, argument)
            thread = threading.Thread(target=self._keep, args=(slot, worker), name=f"anchorbolt-worker-{slot}")
            thread.daemon = True
            self._threads.append(thread)
            thread.start()

    def why_lost(self, slot: Slot, incarnation: int, txid: int, unheard: Sequence[TaskKey]) -> WaveFailed | None:
        """Ask Spark, which notices at once that a process has ended, and after a while that a machine is gone."""
        until = time.monotonic() + _KNOWN_S
        while time.monotonic() < until and not self._is_closed.is_set():
            text = self._said_of(slot, incarnation)
            if text:
                return failure_in(text, "finish a round", txid, lambda: f"worker {slot}", unheard)
            time.sleep(_POLL_S)
        return None

    def end(self, slot: Slot) -> None:
        context = self._session.sparkContext
        if context._jsc is not None:
            context._jsc.sc().cancelJobGroup(self._group(slot))

    def close(self) -> None:
        self._is_closed.set()
        until = time.monotonic() + _CLOSE_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        late = [slot for slot, thread in enumerate(self._threads) if thread.is_alive()]
        if late:
            _log.warning("workers %s have not called cleanup of their bolts within %g s, and are ended", late, _CLOSE_S)
        for slot in late:
            self.end(slot)

    def _keep(self, slot: Slot, worker: RemoteWorker) -> None:
        """Run the job of a worker until the run ends. On a thread of its own."""
        short = 0  # jobs in a row that ended early
        while not self._is_closed.wait(_PAUSES_S[min(short, len(_PAUSES_S) - 1)]):
            began = time.monotonic()
            try:
                context = self._session.sparkContext
                context.setJobGroup(self._group(slot), f"worker {slot} of {self._plan.topology}")
                context.parallelize([slot], 1).mapPartitions(worker).collect()
            except (PySparkException, Py4JError, OSError, AttributeError) as error:  # the last: Spark was stopped
                if self._is_closed.is_set():
                    return
                if self._session.sparkContext._jsc is None or isinstance(error, _JVM_LOST):
                    self._gone("Spark was stopped, or its Java process is gone")
                    return
                if _ALL_CANCELLED in str(error):  # by a stop during the start, for one
                    self._gone("all jobs of Spark were cancelled")
                    return
                _log.info("the job of worker %d has failed: %s", slot, begun(cause_in(str(error)), 400))
            short = 0 if time.monotonic() - began > _LONG_S else short + 1

    def _group(self, slot: Slot) -> str:
        return f"anchorbolt-{self._plan.run_id}-worker-{slot}"

    def _said_of(self, slot: Slot, incarnation: int) -> str:
        """Return Spark's message about a lost task, or an empty text if Spark has not reported the loss yet."""
        context = self._session.sparkContext
        if context._jsc is None:
            return ""
        try:
            tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
            for job in sorted(tracker.getJobIdsForGroup(self._group(slot)), reverse=True)[:3]:
                info = tracker.getJobInfo(job)
                for stage in () if info is None else info.stageIds:
                    tasks: Any = store.taskList(stage, 0, 100)
                    for position in range(tasks.size()):
                        task = tasks.apply(position)
                        if task.taskId() == incarnation and task.errorMessage().isDefined():
                            return str(task.errorMessage().get())
        except (PySparkException, Py4JError, OSError, AttributeError, AssertionError) as error:  # or Spark was stopped
            _log.debug("Spark does not say why worker %d was lost: %s", slot, error)
        return ""
