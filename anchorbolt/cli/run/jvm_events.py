"""Makes events of the lines that Java and Spark's Python workers write to standard error."""

import json
import logging
import re
from datetime import datetime
from typing import Any

_LOGGER = "spark"
_LOG4J = re.compile(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) ([\w.$-]+): (.*)", re.DOTALL)
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_PYTHON_TRACEBACK = "Traceback (most recent call last):"
_NEXT_TRACEBACK = ("During handling of the above exception", "The above exception was the direct cause")
# Lines of a stack trace of Java: an exception with its package, a frame, a cause.
_JAVA_TRACEBACK = re.compile(
    r"\s+at |Caused by: |\s*Suppressed: |\s*\.\.\. \d+ more|(?:[a-z_]\w*\.)+[A-Z][\w$]*(?::|$)"
)
_MOST_LINES = 500

_OF_WORKER = ("time", "level", "logger", "message")


class JvmEvents:
    """Logs each line as an event of the logger `spark`; a stack trace belongs to the event before it.

    A line in the format of Spark's log has its level, and the name of its class as `java_class`. Any other line is of
    level INFO. An event that a Python worker of Anchorbolt has written is logged again as it is.
    """

    def __init__(self) -> None:
        self._event: logging.LogRecord | None = None  # waits for its stack trace
        self._trace: list[str] = []
        self._in_python = False  # between the first line of a traceback and the exception's

    def take(self, line: str) -> None:
        """Take a line, with its end."""
        line = line.rstrip("\r\n")
        if not line.strip() or self._is_of_trace(line):
            if line.strip() and len(self._trace) < _MOST_LINES:
                self._trace.append(line)
            return
        self.pause()
        if event := _event_of_worker(line):
            _log(event)
        elif of_spark := _LOG4J.fullmatch(line):
            self._event = _event(_LOGGER, _LEVELS[of_spark[1]], of_spark[3], java_class=of_spark[2])
        else:
            self._event = _event(_LOGGER, logging.INFO, line)

    def pause(self) -> None:
        """Log what waits for its stack trace."""
        event, trace = self._event, self._trace
        self._event, self._trace, self._in_python = None, [], False
        if event is None and trace:  # a traceback after no message: its last line says what happened
            event = _event(_LOGGER, logging.ERROR, trace[-1].strip())
        if event is not None:
            event.exc_text = "\n".join(trace) or None
            _log(event)

    def _is_of_trace(self, line: str) -> bool:
        if line.startswith((_PYTHON_TRACEBACK, *_NEXT_TRACEBACK)):
            self._in_python = True
            return True
        if self._in_python:
            self._in_python = line.startswith(" ")
            return True
        return (self._event is not None or bool(self._trace)) and _JAVA_TRACEBACK.match(line) is not None


def _event(logger: str, level: int, message: str, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord(logger, level, "", 0, message, None, None)
    vars(record).update(fields)
    return record


def _event_of_worker(line: str) -> logging.LogRecord | None:
    """Read an event that `anchorbolt.util.event_log` has written in a worker, with the repeats left out already."""
    if not line.startswith('{"time": '):
        return None
    try:
        read: dict[str, Any] = json.loads(line)
        time, level, logger, message = (read.pop(name) for name in _OF_WORKER)
        created, levelno = datetime.fromisoformat(time).timestamp(), getattr(logging, level)
        trace = read.pop("traceback", None)
    except (ValueError, KeyError, AttributeError, TypeError):  # what a bolt has printed only looks like one
        return None
    record = logging.makeLogRecord(
        {**read, "name": str(logger), "levelno": levelno, "levelname": level, "msg": str(message), "created": created}
    )
    record.exc_text = trace
    record.written_at_once = True
    return record


def _log(record: logging.LogRecord) -> None:
    logger = logging.getLogger(record.name)
    if logger.hasHandlers():  # without a handler the run has ended, and Python would print the bare message
        logger.handle(record)
