"""Sets up Spark's Python workers: their faults, their watchdog, and their log, as JSON events if the driver asks."""

import logging
import os
import sys
import threading
from collections.abc import Callable

from anchorbolt.engine.task.watchdog import allow_to_end_this_process
from anchorbolt.faults.injection import install_faults
from anchorbolt.faults.points import current_task
from anchorbolt.util.garbage import spare_imports

LOG_FORMAT_VARIABLE = "ANCHORBOLT_LOG_FORMAT"
"""Environment variable of a worker; `json` makes it log events (`anchorbolt.util.event_log`) to standard error."""

LOG_TOPOLOGY_VARIABLE = "ANCHORBOLT_LOG_TOPOLOGY"
"""Environment variable of a worker that logs events: the topology's name, for the field of each event."""


_SWITCH_S = 0.0005

_is_set_up = False


def set_up_process() -> None:
    """Set up this process once, and exclude all imported objects from garbage collection.

    Spark's daemon collects garbage after every task. With the modules that Spark and Arrow import on first use, it
    scans 35,000 objects, which takes most of a worker's time in an almost empty wave.
    """
    global _is_set_up
    if not _is_set_up:
        install_faults()
        allow_to_end_this_process()
        set_up_worker_log()
        spare_imports()
        # Arrow and NumPy release the interpreter lock some ten times for a blob. While another thread of the process
        # works, such as a spout's, each time costs this long: with Python's 5 ms, 0.6 us a tuple.
        sys.setswitchinterval(_SWITCH_S)
        _is_set_up = True


def set_up_worker_log() -> None:
    """Log events if the variable asks for them. Handlers that a job's module has set up stay unchanged."""
    root = logging.getLogger()
    if os.environ.get(LOG_FORMAT_VARIABLE) != "json" or root.handlers:
        return
    from anchorbolt.util.event_log import EventHandler  # only needed for events

    root.addHandler(EventHandler(sys.stderr, _task_fields, later=_call_later))
    logging.captureWarnings(True)


def tell_left_out() -> None:
    """Log which repeated events were left out, because Spark may end this process soon without a warning."""
    for handler in logging.getLogger().handlers:
        tell = getattr(handler, "tell", None)
        if tell is not None:
            tell()


def _call_later(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def _task_fields() -> dict[str, object]:
    component, task, txid = current_task()
    topology = os.environ.get(LOG_TOPOLOGY_VARIABLE) or None
    known = {
        "topology": topology,
        "txid": txid if txid >= 0 else None,
        "component": component or None,
        "task": task if task >= 0 else None,
    }
    return {name: value for name, value in known.items() if value is not None}
