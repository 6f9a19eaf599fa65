"""Warns of a bolt or a rich spout that does not return, with its current line of code.

It ends a bolt's worker if that is configured. It reads the stacks of the threads that run tasks, at least every two
seconds. The tasks themselves do nothing for it.
"""

import gc
import itertools
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import bounded

_log = logging.getLogger("anchorbolt.engine")

_LONGEST_PAUSE_S = 2.0
_LONG_S = 2.0
_MOST_STACK = 8000  # characters
_PACKAGE = Path(__file__).resolve().parents[2]
_CALLERS = tuple(str(_PACKAGE / room) for room in ("bolts", "checkpoint", "engine/task", "engine/sources/hosted_spout"))


class LongCall(NamedTuple):
    """A call of a bolt's, a spout's or an emitter's method that has not returned for two seconds."""

    kind: str  # "bolt"; "spout", or "emitter" in a transactional topology
    component: str
    task_index: int
    method: str  # its name
    seconds: float  # since the watchdog first saw the call
    stack: str  # of the call, as in a traceback: files, lines and code


@dataclass
class _Watched:
    topology: str
    kind: str  # see `LongCall`
    task: TaskKey
    warn_s: float
    end_s: float | None
    call: FrameType | None = None  # the last call of the bolt that the watchdog saw
    since: float = 0.0
    warned_after_s: float = 0.0


_watched: dict[int, _Watched] = {}  # by thread
_begun = threading.Event()
_start_lock = threading.Lock()
_started_in = 0
_may_end_process = False
_look_lock = threading.Lock()
_stacks_lock = threading.Lock()
_Tell = Callable[[Sequence[LongCall]], None]
_tell: _Tell | None = None


def allow_to_end_this_process() -> None:
    """Call this only in Spark's Python workers: a bolt's call can be ended only with its process."""
    global _may_end_process
    _may_end_process = True


@contextmanager
def watched(plan: ExecutionPlan, task: TaskKey, kind: str = "bolt") -> Iterator[Callable[[TaskKey], None]]:
    """Watch the calling thread, which runs a task of a bolt, a spout or an emitter.

    The thread must not change until the end. Yields a function that tells when it runs another task of this kind.
    """
    _start()
    thread = threading.get_ident()
    settings = plan.settings
    watch = _Watched(plan.topology, kind, task, settings.message_timeout_secs, settings.task_timeout_secs)
    _watched[thread] = watch

    def runs(task: TaskKey) -> None:
        watch.task = task

    _begun.set()
    try:
        yield runs
    finally:
        _watched.pop(thread, None)


def long_calls(topology: str) -> list[LongCall]:
    """Return the calls of a topology in this process that have not returned for two seconds, the longest first.

    May be called on any thread. A call is timed from when the watchdog first saw it, so its `seconds` may be up to two
    seconds too few.
    """
    return _long_calls(topology)


def tell_long_calls(tell: _Tell | None) -> None:
    """Call `tell` about every two seconds with the calls of this process that have lasted for over two seconds.

    `tell` is called once more, with no calls, when all have returned. None stops this.
    """
    global _tell
    _tell = tell


def _long_calls(topology: str | None = None) -> list[LongCall]:
    stacks, found = _stacks(), list[LongCall]()
    for thread, each in list(_watched.items()):
        if topology in (None, each.topology):
            stack = stacks.get(thread)
            call, seconds = _time(each, stack)
            if call is not None and seconds >= _LONG_S:
                lines = bounded(_lines(call, stack), _MOST_STACK)
                found.append(LongCall(each.kind, *each.task, call.f_code.co_name, seconds, lines))
    return sorted(found, key=lambda each: -each.seconds)


def _stacks() -> dict[int, FrameType]:
    """Return the innermost frame of each thread.

    Disables garbage collection meanwhile: before Python 3.11.9 it may block the process forever here if it frees a
    `threading.local` (https://github.com/python/cpython/issues/106883).
    """
    with _stacks_lock:
        collects = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if collects:
                gc.enable()


def _start() -> None:
    global _started_in
    with _start_lock:
        if _started_in != os.getpid():
            _started_in = os.getpid()
            threading.Thread(target=_watch, name="anchorbolt-watchdog", daemon=True).start()


def _watch() -> None:
    was_long = False
    while True:
        _begun.wait()
        if _tell is not None:
            calls = _long_calls()
            if calls or was_long:
                _tell_of(calls)
            was_long = bool(calls)
        limits = [limit for each in list(_watched.values()) for limit in (each.warn_s, each.end_s) if limit]
        if not limits:
            _begun.clear()
            continue
        time.sleep(min(_LONGEST_PAUSE_S, min(limits) / 4))
        stacks = _stacks()
        for thread, each in list(_watched.items()):
            _look(each, stacks.get(thread))


def _tell_of(calls: Sequence[LongCall]) -> None:
    assert _tell is not None
    try:
        _tell(calls)
    except Exception:  # the watchdog must continue even if a report fails
        _log.debug("long calls could not be told", exc_info=True)


def _look(watched: _Watched, stack: FrameType | None) -> None:
    call, seconds = _time(watched, stack)
    if call is None or not seconds:
        return
    may_end = _may_end_process and watched.kind != "spout"  # a spout may wait for its source, and no wave waits for it
    ending = may_end and watched.end_s is not None and seconds >= watched.end_s
    if ending or seconds >= max(watched.warn_s, 2 * watched.warned_after_s):
        watched.warned_after_s = seconds
        fields = dict(zip(("component", "task"), watched.task, strict=True))
        _log.warning("%s", _description(watched, call, stack, seconds, ending=ending), extra=fields)
    if ending:
        os.kill(os.getpid(), signal.SIGKILL)


def _time(watched: _Watched, stack: FrameType | None) -> tuple[FrameType | None, float]:
    """Return a thread's current call, and the seconds since the watchdog first saw it; 0 for a new call."""
    with _look_lock:
        call, now = _call_of_bolt(stack), time.monotonic()
        if call is None or call is not watched.call:
            watched.call, watched.since, watched.warned_after_s = call, now, 0.0
        return call, now - watched.since


def _call_of_bolt(frame: FrameType | None) -> FrameType | None:
    """Return the frame of a bolt's method that Anchorbolt has called; None outside such a call."""
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
    ended = (
        " Its worker is ended now, as topology.task.timeout.secs says, and the round fails."
        if ending
        else f" {'Its acks and fails wait' if watched.kind == 'spout' else 'The wave waits'} for it."
    )
    who = f"{watched.kind} {component!r}, task {index},"
    return f"{who} has been in {what} for {seconds:,.0f} s.{ended} It is here:\n{_lines(call, stack)}"


def _lines(call: FrameType, stack: FrameType | None) -> str:
    """Return the stack of a call, from its own frame on."""
    inner = itertools.takewhile(lambda entry: entry[0] is not call.f_back, traceback.walk_stack(stack))
    return "".join(traceback.StackSummary.extract(iter(reversed(list(inner)))).format()).rstrip()
