"""Where a worker that stays begins, in a Python process of Spark."""

import os
import pickle

from pyspark import TaskContext

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.intake.client import AskedBatchDriver, IntakeAddress, report_long_calls
from anchorbolt.engine.spark.worker_log import set_up_process
from anchorbolt.engine.workers.links import Address
from anchorbolt.engine.workers.process import WorkerProcess
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.errors import PlatformError

Argument = tuple[Slot, int, Address, IntakeAddress | None, IntakeAddress | None]
"""The slot, the number of workers, and the driver's addresses: for workers, for emitters, and for long calls."""


def run(pickled: bytes, argument: Argument) -> None:
    """Run a worker until the run ends; `pickled` is the plan."""
    context = TaskContext.get()
    if context is None:
        raise PlatformError("a worker of Anchorbolt ran outside a Spark task")
    plan: ExecutionPlan = pickle.loads(pickled)  # noqa: S301 - made by this run's own driver
    set_up_process()
    slot, slots, address, emitters, calls = argument
    report_long_calls(calls)
    driver = None if emitters is None else AskedBatchDriver(emitters, kept=True)
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    try:
        WorkerProcess(plan, slots, address, slot, context.taskAttemptId(), driver, folder).serve()
    finally:
        if driver is not None:
            driver.close()
