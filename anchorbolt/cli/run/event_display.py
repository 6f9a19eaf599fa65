"""`anchorbolt run --log-format json`: everything that a run says is an event on standard error.

The events come from the log, from what the display of text would print, from Python's warnings and uncaught exceptions
of threads, and from what the job prints to standard error. Standard output is left to the job.
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
from anchorbolt.util.event_log import EventHandler
from anchorbolt.util.messages import fields_of

_log = logging.getLogger("anchorbolt.run")


class EventDisplay(Display):
    """Logs what a run says, with its figures as fields, under `anchorbolt.run`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Console(force_terminal=False), clock)
        self._fields: dict[str, object] = {}
        self._handler: EventHandler | None = None

    @contextmanager
    def logging(self, *, verbose: bool) -> Iterator[None]:
        """Make events of all that is logged or written to standard error, and put everything back afterwards."""
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

    def fail(self, text: str, error: BaseException | None = None, *, with_traceback: bool = False) -> None:
        """Log what ended the run. Its traceback is the user's, which the text starts with, or the whole one."""
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
    """Log what has ended a thread, as `threading.excepthook`."""
    if args.exc_value is not None and args.exc_type is not SystemExit:
        name = "a thread" if args.thread is None else f"thread {args.thread.name!r}"
        exc_info = (args.exc_type, args.exc_value, args.exc_traceback)
        _log.error("%s has ended: %s", name, args.exc_type.__name__, exc_info=exc_info)


class _LinesAsEvents(io.TextIOBase):
    """Stands for `sys.stderr`: logs each line that is written to it, under `stderr`; an event of a worker stays one."""

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
        """Log what has no end of line yet."""
        self.write("\n")


def _is_event(line: str) -> bool:
    """Return whether a line is an event that `anchorbolt.util.event_log` has written in a worker."""
    if not line.startswith('{"time": '):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):  # what a bolt has printed only looks like one
        return False


def _log_line(line: str) -> None:
    logger = logging.getLogger("stderr")
    logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (line,), None))
