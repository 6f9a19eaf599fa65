"""Two drivers of one topology: the older one is asleep at a point while a newer one does the work, and then wakes."""

import signal
from contextlib import closing
from pathlib import Path

from anchorbolt.cli.exit_codes import STATE_REFUSED
from anchorbolt.faults.injection import Fault, FaultAction
from anchorbolt.faults.points import FaultPoint
from tests.cli.command import wait_until
from tests.crash.plans import AFTER_A_FAILURE, IN_RECOVERY
from tests.crash.runs import AccompaniedRun
from tests.support.server_process import stop_process
from tests.support.stores import Store


def wrong_once_it_wakes(home: Path, store: Store, point: FaultPoint) -> list[str]:
    """Stop a driver at one of its points, let another one finish, wake the first; say what is not as it must be."""
    large = 1 if point is FaultPoint.SLICE_APPLIED else None
    faults = _faults(point)
    with closing(AccompaniedRun(home, store, faults=faults, large=large)) as run:
        older = run.start()
        run.wait_for_fault(len(faults) - 1)
        stop_process(older.pid)  # its JVM and its workers go on

        def wake() -> None:
            run.faults.release()
            older.send(signal.SIGCONT)

        newer = run.start(faulty=False)
        holds_lock = isinstance(store, Path) and point is FaultPoint.SLICE_APPLIED
        if holds_lock:  # of the file that it commits to: nobody can do anything about that but wait
            waits = "waiting for the state store"
            wait_until(lambda: waits in newer.err or newer.has_ended, f"it waits: {newer!r}")
            wake()
        wrong = [] if newer.end() == 0 else [f"the newer driver failed: {newer!r}"]
        wrong += run.differences()
        if not holds_lock:
            wake()
        if older.end() != STATE_REFUSED:
            wrong.append(f"the older driver did not end as fenced off: {older!r}")
        return wrong + [f"after the older one woke: {each}" for each in run.differences()]


def _faults(point: FaultPoint) -> list[Fault]:
    if point in IN_RECOVERY:
        return [Fault(point, FaultAction.HANG)]
    failure = Fault(FaultPoint.TASK_ALIGNED, FaultAction.RAISE, component="count", txid=1)
    return [*([failure] if point in AFTER_A_FAILURE else []), Fault(point, FaultAction.HANG, txid=1)]
