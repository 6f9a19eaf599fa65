"""Warns of a bolt or a rich spout that does not return, with the line of code where it is.

It ends a bolt's worker if that is configured. It looks at the stacks of the threads that run tasks, a few times a
minute. The tasks themselves do nothing for it.
"""

import itertools
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.config.settings import Settings
from anchorbolt.streams.tuple import Tuple

_log = logging.getLogger("anchorbolt.engine")

_LONGEST_PAUSE_S = 5.0
_PACKAGE = Path(__file__).resolve().parents[2]
_CALLERS = tuple(str(_PACKAGE / room) for room in ("bolts", "checkpoint", "engine/task", "engine/spouts/hosted_spout"))


@dataclass
class _Watched:
    kind: str  # "bolt"; "spout", or "emitter" in a transactional topology
    task: TaskKey
    warn_s: float
    end_s: float | None
    call: FrameType | None = None  # the call of the bolt that was seen last
    since: float = 0.0
    warned_after_s: float = 0.0


_watched: dict[int, _Watched] = {}  # by thread
_begun = threading.Event()
_start_lock = threading.Lock()
_started_in = 0
_may_end_process = False


def allow_to_end_this_process() -> None:
    """Call it only in Spark's Python workers: the only way to end a bolt's call is to end its process."""
    global _may_end_process
    _may_end_process = True


@contextmanager
def watched(task: TaskKey, settings: Settings, kind: str = "bolt") -> Iterator[None]:
    """Watch what the calling thread runs: a task of a bolt, a spout or an emitter.

    The thread must not change until the end.
    """
    _start()
    thread = threading.get_ident()
    _watched[thread] = _Watched(kind, task, settings.message_timeout_secs, settings.task_timeout_secs)
    _begun.set()
    try:
        yield
    finally:
        _watched.pop(thread, None)


def _start() -> None:
    global _started_in
    with _start_lock:
        if _started_in != os.getpid():
            _started_in = os.getpid()
            threading.Thread(target=_watch, name="anchorbolt-watchdog", daemon=True).start()


def _watch() -> None:
    while True:
        _begun.wait()
        limits = [limit for each in list(_watched.values()) for limit in (each.warn_s, each.end_s) if limit]
        if not limits:
            _begun.clear()
            continue
        time.sleep(min(_LONGEST_PAUSE_S, min(limits) / 4))
        stacks = sys._current_frames()
        for thread, each in list(_watched.items()):
            _look(each, stacks.get(thread))


def _look(watched: _Watched, stack: FrameType | None) -> None:
    call, now = _call_of_bolt(stack), time.monotonic()
    if call is None or call is not watched.call:
        watched.call, watched.since, watched.warned_after_s = call, now, 0.0
        return
    seconds = now - watched.since
    ending = _may_end_process and watched.end_s is not None and seconds >= watched.end_s
    if ending or seconds >= max(watched.warn_s, 2 * watched.warned_after_s):
        watched.warned_after_s = seconds
        fields = dict(zip(("component", "task"), watched.task, strict=True))
        _log.warning("%s", _description(watched, call, stack, seconds, ending=ending), extra=fields)
    if ending:
        os.kill(os.getpid(), signal.SIGKILL)


def _call_of_bolt(frame: FrameType | None) -> FrameType | None:
    """Return the frame of a bolt's method that the framework has called; None outside of one."""
    found = None
    while frame is not None and (caller := frame.f_back) is not None:
        file = frame.f_code.co_filename
        if caller.f_code.co_filename.startswith(_CALLERS) and not file.startswith(f"{_PACKAGE}{os.sep}"):
            found = frame
        frame = caller
    return found


def _description(watched: _Watched, call: FrameType, stack: FrameType | None, seconds: float, *, ending: bool) -> str:
    component, index = watched.task
    given = next((value for value in call.f_locals.values() if isinstance(value, Tuple)), None)
    what = call.f_code.co_name if given is None else f"{call.f_code.co_name}({given!r})"
    inner = itertools.takewhile(lambda entry: entry[0] is not call.f_back, traceback.walk_stack(stack))
    lines = "".join(traceback.StackSummary.extract(iter(reversed(list(inner)))).format()).rstrip()
    ended = (
        " Its worker is ended now, as topology.task.timeout.secs says, and the round fails."
        if ending
        else f" {'Its acks and fails wait' if watched.kind == 'spout' else 'The wave waits'} for it."
    )
    who = f"{watched.kind} {component!r}, task {index},"
    return f"{who} has been in {what} for {seconds:,.0f} s.{ended} It is here:\n{lines}"
