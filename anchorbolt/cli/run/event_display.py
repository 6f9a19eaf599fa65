"""`anchorbolt run --log-format json`: all output of a run is events on standard error.

The events come from the log, from the lines of the text display, from Python's warnings and uncaught exceptions of
threads, and from the job's output on standard error. Standard output belongs to the job.
"""

import io
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console

from anchorbolt.cli.command import set_levels
from anchorbolt.cli.run.progress import Display, Progress
from anchorbolt.observe.figures.profile import Profile
from anchorbolt.util.event_log import EventHandler
from anchorbolt.util.messages import fields_of

_log = logging.getLogger("anchorbolt.run")


class EventDisplay(Display):
    """Logs the output of a run, with its figures as fields, under `anchorbolt.run`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Console(force_terminal=False), clock)
        self._fields: dict[str, object] = {}
        self._handler: EventHandler | None = None

    @contextmanager
    def logging(self, *, verbose: bool) -> Iterator[None]:
        """Convert all log records and all output on standard error to events; restore both at the end."""
        root, stderr, hook = logging.getLogger(), sys.stderr, threading.excepthook
        handlers, level, own_level = root.handlers[:], root.level, _log.level
        self._handler = EventHandler(stderr, self._known)
        root.handlers[:] = [self._handler]
        root.setLevel(logging.WARNING)
        set_levels(verbose=verbose)
        _log.setLevel(logging.INFO)
        logging.captureWarnings(True)
        threading.excepthook = _log_uncaught
        sys.stderr = lines = _LinesAsEvents(stderr)
        try:
            yield
        finally:
            lines.flush_rest()
            sys.stderr = stderr
            threading.excepthook = hook
            logging.captureWarnings(False)
            self._handler.close()
            root.handlers[:] = handlers
            root.setLevel(level)
            _log.setLevel(own_level)

    def name(self, topology: str) -> None:
        """Add the topology's name to all further events."""
        self._fields = {"topology": topology}

    def say(self, text: str, **fields: object) -> None:
        """Log the text as an event, with its figures as fields."""
        _log.info("%s", text, extra=fields)

    def say_progress(self, progress: Progress, now: float) -> None:
        """Log the latest wave, with the figures of the run and of the wave."""
        self.say(progress.line(now), **progress.figures(now))

    def show(self, profile: Profile) -> None:
        """Log where the time went, an event for each component."""
        for each in profile.components:
            parts = {name: round(value, 1) for name, value in each._asdict().items() if name.endswith("_ms")}
            text = f"profile: {each.component}, {each.total_ms / 1000:,.2f} s"
            self.say(text, component=each.component, tuples=each.tuples, **parts)

    def fail(self, text: str, error: BaseException | None = None, *, with_traceback: bool = False) -> None:
        """Log why the run ended, with the user's traceback (the beginning of the text) or the whole traceback."""
        trace, message = "", text
        if text.startswith("Traceback "):
            trace, _, message = text.rpartition("\n")
        fields = {} if error is None else {"error": type(error).__name__, **fields_of(error)}
        record = _log.makeRecord(_log.name, logging.ERROR, "", 0, message, (), None, extra=fields)
        if error is not None and with_traceback:
            record.exc_info = (type(error), error, error.__traceback__)
        else:
            record.exc_text = trace.rstrip() or None
        _log.handle(record)

    def refresh(self) -> None:
        """Log the progress, and the counts of repeated events."""
        super().refresh()
        if self._handler is not None:
            self._handler.sweep()

    def _known(self) -> Mapping[str, object]:
        return self._fields


def _log_uncaught(args: threading.ExceptHookArgs) -> None:
    """Log the exception that ended a thread; used as `threading.excepthook`."""
    if args.exc_value is not None and args.exc_type is not SystemExit:
        name = "a thread" if args.thread is None else f"thread {args.thread.name!r}"
        exc_info = (args.exc_type, args.exc_value, args.exc_traceback)
        _log.error("%s has ended: %s", name, args.exc_type.__name__, exc_info=exc_info)


class _LinesAsEvents(io.TextIOBase):
    """Replaces `sys.stderr`: logs each written line under `stderr`; a worker's event stays an event."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a plain attribute
        return self._stream.encoding

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            if _is_event(line):
                self._stream.write(f"{line}\n")
            else:
                _log_line(line)
        return len(text)

    def flush_rest(self) -> None:
        """Log the text after the last line end."""
        self.write("\n")


def _is_event(line: str) -> bool:
    """Return whether a line is an event that `anchorbolt.util.event_log` wrote in a worker."""
    if not line.startswith('{"time": '):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):  # a bolt's output that only looks like an event
        return False


def _log_line(line: str) -> None:
    logger = logging.getLogger("stderr")
    logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (line,), None))
