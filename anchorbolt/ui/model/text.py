"""Durations and names as Storm's REST API writes them."""

from __future__ import annotations

from typing import overload
from urllib.parse import quote

from anchorbolt.observe.figures.windows import ALL_TIME, WINDOWS

_STATUS = {"RUNNING": "ACTIVE", "PAUSED": "INACTIVE"}


def encoded(name: str) -> str:
    """Return a name as a part of a URL's path: Storm's `encodedId`."""
    return quote(name, safe="")


def pretty_seconds(seconds: float) -> str:
    """Return a duration as Storm shows it: `1d 2h 0m 5s`."""
    rest = int(seconds)
    parts = [f"{rest % 60}s"]
    for size, name, within in ((60, "m", 60), (3600, "h", 24), (86_400, "d", None)):
        if rest < size:
            break
        parts.insert(0, f"{rest // size % within if within else rest // size}{name}")
    return " ".join(parts)


def pretty_window(window: str) -> str:
    """Return a window as Storm shows it."""
    return "All time" if window == ALL_TIME else pretty_seconds(WINDOWS[window])


def storm_status(status: str) -> str:
    """Return Storm's status for a running or paused run, and our own for any other."""
    return _STATUS.get(status, status)


@overload
def decimal(value: float) -> str: ...
@overload
def decimal(value: None) -> None: ...
def decimal(value: float | None) -> str | None:
    """Return a latency or a capacity as Storm does: a string with three decimal places."""
    return None if value is None else f"{value:.3f}"
