"""Log records as events: one JSON object a line, for programs that collect logs. Used by the driver and by workers.

An event has `time`, `level`, `logger` and `message`; `traceback` if the record has an exception; and as more fields
what the caller of the logger gave as `extra`, such as `txid`, `component` and `task`. Equal events that come within a
few seconds are counted, not written.
"""

import copy
import logging
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from anchorbolt.util.messages import shortened

BETWEEN_REPEATS_S = 5.0
_MOST_REMEMBERED = 1000
_NUMBERS = re.compile(r"\d+")

Fields = Callable[[], Mapping[str, object]]


class EventFormatter(JsonFormatter):
    """Formats a record as an event. `fields` returns what is known of every record of this moment; `extra` goes first.

    A user's `extra` cannot replace what every event has.
    """

    def __init__(self, fields: Fields = dict) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger", "exc_info": "traceback", "stack_info": "stack"},
            reserved_attrs=[*RESERVED_ATTRS, "taskName", "time", "level", "logger", "traceback", "written_at_once"],
            timestamp="time",
        )
        self._fields = fields

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Put the time first, and the fields of this moment last."""
        known = {name: value for name, value in self._fields().items() if name not in log_data}
        return {"time": log_data.pop("time"), **log_data, **known}


@dataclass
class _Written:
    until: float
    left_out: int = 0
    last: logging.LogRecord | None = None  # of those left out


class EventHandler(logging.Handler):
    """Writes each record as a line, and of equal ones at most one in `pause_s` seconds, with a count of the others.

    Records are equal if logger, level, text, component and task are. The last of those left out is written once
    `pause_s` has passed and anything is logged or `sweep` is called, or when the handler is closed; its field
    `left_out` counts the others. A record with the attribute `written_at_once` is always written.
    """

    def __init__(
        self,
        stream: TextIO,
        fields: Fields = dict,
        pause_s: float = BETWEEN_REPEATS_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._format = EventFormatter(fields)
        self.setFormatter(self._format)
        self._stream = stream
        self._pause_s = pause_s
        self._clock = clock
        self._written: dict[tuple[object, ...], _Written] = {}  # oldest first

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or count it."""
        try:
            now = self._clock()
            self._sweep(now)
            if hasattr(record, "written_at_once"):
                self._write(record)
                return
            key = _key(record)
            if earlier := self._written.get(key):
                earlier.last = self._without_frames(record)
                earlier.left_out += 1
                return
            while len(self._written) >= _MOST_REMEMBERED:
                self._forget(next(iter(self._written)))
            self._written[key] = _Written(now + self._pause_s)
            self._write(record)
        except Exception:
            self.handleError(record)

    def sweep(self) -> None:
        """Write the counts that are due."""
        self.acquire()
        try:
            self._sweep(self._clock())
        finally:
            self.release()

    def close(self) -> None:
        """Write all counts."""
        self.acquire()
        try:
            with suppress(OSError, ValueError):
                for key in list(self._written):
                    self._forget(key)
        finally:
            self.release()
        super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Write an event about a record that cannot be formatted. If the stream is closed, nothing can be said."""
        text = f"a record cannot be shown, because its format does not fit: {shortened(record.msg)}"
        with suppress(OSError, ValueError):
            self._write(logging.LogRecord(record.name, record.levelno, record.pathname, record.lineno, text, (), None))

    def _sweep(self, now: float) -> None:
        while self._written:
            key, oldest = next(iter(self._written.items()))
            if oldest.until > now:
                return
            if self._forget(key):
                self._written[key] = _Written(now + self._pause_s)

    def _forget(self, key: tuple[object, ...]) -> bool:
        """Forget what was written, and write the last of those left out; return whether there was one."""
        written = self._written.pop(key)
        if written.last is None:
            return False
        if written.left_out > 1:
            written.last.left_out = written.left_out - 1
        self._write(written.last)
        return True

    def _without_frames(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return a copy to keep: an exception's frames would keep alive what they refer to."""
        kept = copy.copy(record)
        if kept.exc_info:
            kept.exc_text = logging.Formatter.formatException(self._format, kept.exc_info)
            kept.exc_info = None
        return kept

    def _write(self, record: logging.LogRecord) -> None:
        self._stream.write(f"{self.format(record)}\n")
        self._stream.flush()


def _key(record: logging.LogRecord) -> tuple[object, ...]:
    text = record.getMessage()
    if hasattr(record, "java_class"):  # Spark's messages hold the numbers of its tasks, which are never the same
        text = _NUMBERS.sub("#", text)
    return record.name, record.levelno, text, getattr(record, "component", None), getattr(record, "task", None)
