"""Log records as events: one JSON object per line, for programs that collect logs. Used by driver and workers.

An event has `time`, `level`, `logger` and `message`; `traceback` if the record has an exception; and the fields of the
caller's `extra`, such as `txid`, `component` and `task`. Equal events within a few seconds are counted, not written.
"""

import copy
import logging
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

Fields = Callable[[], Mapping[str, object]]
Later = Callable[[float, Callable[[], None]], None]
"""Makes a call after some seconds, on any thread."""


class EventFormatter(JsonFormatter):
    """Formats a record as an event. `fields` returns the current common fields of all records; `extra` overrides them.

    A user's `extra` cannot replace the fields that every event has.
    """

    def __init__(self, fields: Fields = dict) -> None:
        super().__init__(
            ["levelname", "name", "message"],
            rename_fields={"levelname": "level", "name": "logger", "exc_info": "traceback", "stack_info": "stack"},
            reserved_attrs=[*RESERVED_ATTRS, "taskName", "time", "level", "logger", "traceback"],
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
    last: logging.LogRecord | None = None  # the last omitted record


class EventHandler(logging.Handler):
    """Writes each record as a line. Of equal records, writes at most one per `pause_s` seconds, and counts the others.

    Records are equal if logger, level, text, component and task are. The last omitted record is written at the first
    log record or call of `sweep` after `pause_s`, or when `tell` is called or the handler is closed; its field
    `left_out` counts the others. With `later`, the handler calls `sweep` by itself.
    """

    def __init__(
        self,
        stream: TextIO,
        fields: Fields = dict,
        pause_s: float = BETWEEN_REPEATS_S,
        clock: Callable[[], float] = time.monotonic,
        later: Later | None = None,
    ) -> None:
        super().__init__()
        self._fields = fields
        self._later = later
        self._is_due_later = False  # whether `later` is going to call `sweep`
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
            known = self._fields()
            key = _key(record, known)
            if earlier := self._written.get(key):
                earlier.last = self._kept(record, known)
                earlier.left_out += 1
                self._sweep_later(now)
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

    def tell(self) -> None:
        """Write all counts, even before they are due: perhaps nothing more is logged."""
        self.acquire()
        try:
            with suppress(OSError, ValueError):
                for key in list(self._written):
                    self._forget(key)
        finally:
            self.release()

    def close(self) -> None:
        """Write all counts."""
        self.tell()
        super().close()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Write an event about a record that cannot be formatted. If the stream is closed, write nothing."""
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

    def _sweep_later(self, now: float) -> None:
        """Schedule a call of `sweep` for the time when the first count is due, unless there is one."""
        if self._later is None or self._is_due_later:
            return
        due = next((each.until for each in self._written.values() if each.last is not None), None)
        if due is not None:
            self._is_due_later = True
            self._later(max(0.0, due - now), self._swept)

    def _swept(self) -> None:
        self.acquire()
        try:
            with suppress(OSError, ValueError):
                now = self._clock()
                self._is_due_later = False
                self._sweep(now)
                self._sweep_later(now)
        finally:
            self.release()

    def _forget(self, key: tuple[object, ...]) -> bool:
        """Forget the written record, and write the last omitted one; return whether there was one."""
        written = self._written.pop(key)
        if written.last is None:
            return False
        if written.left_out > 1:
            written.last.left_out = written.left_out - 1
        self._write(written.last)
        return True

    def _kept(self, record: logging.LogRecord, known: Mapping[str, object]) -> logging.LogRecord:
        """Return a copy to keep, with the current fields but without frames, which keep objects alive."""
        kept = copy.copy(record)
        vars(kept).update((name, value) for name, value in known.items() if not hasattr(kept, name))
        if kept.exc_info:
            kept.exc_text = logging.Formatter.formatException(self._format, kept.exc_info)
            kept.exc_info = None
        return kept

    def _write(self, record: logging.LogRecord) -> None:
        self._stream.write(f"{self.format(record)}\n")
        self._stream.flush()


def _key(record: logging.LogRecord, known: Mapping[str, object]) -> tuple[object, ...]:
    task = (getattr(record, name, known.get(name)) for name in ("component", "task"))
    return record.name, record.levelno, record.getMessage(), *task
