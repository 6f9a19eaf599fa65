"""Whether a quantity of a run grows: means of two windows, and the straight line through what follows the warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.table import Table

from benchmarks.soak.sampling import Sample

_WARM_UP = _WINDOW = 10.0  # minutes
_CERTAIN = 3.0  # standard errors of the slope
_NOTICEABLE = 0.02  # of the mean: what a quantity must gain or lose after the warm-up

BY_DESIGN = ("sink files", "sink MB", "history files", "waves", "minutes")
"""They grow with the number of waves, the history only to 10,000 of them."""


@dataclass(frozen=True)
class Trend:
    """One quantity after the warm-up."""

    first: float  # mean of the first window
    last: float
    per_hour: float  # the slope
    error: float  # its standard error
    change: float  # what the slope makes of the whole time, as a share of the mean
    late_per_hour: float  # the slope of the second half
    verdict: str


def warm_up(minutes: float) -> float:
    """Return how long the warm-up of a run is, in minutes: ten, or a third of a run of less than half an hour."""
    return _WARM_UP if minutes >= 3 * _WARM_UP else minutes / 3


def trend_of(minutes: Sequence[float], values: Sequence[float]) -> Trend | None:
    """Return the trend of a quantity; None if fewer than four samples follow the warm-up.

    It grows or falls if its slope is certain (three standard errors) and noticeable (2 % of the mean). If only the
    first half of the time has such a slope, it is `level later`.
    """
    x, y = np.asarray(minutes, float), np.asarray(values, float)
    x, y = x[x >= warm_up(x[-1])], y[x >= warm_up(x[-1])]
    if len(x) < 4:
        return None
    start, end = x[0], x[-1]
    window = min(_WINDOW, (end - start) / 3)
    slope, error = _line(x, y)
    half = x >= (start + end) / 2
    late, late_error = _line(x[half], y[half]) if half.sum() >= 4 else (slope, error)
    level = max(float(np.abs(y).mean()), 1e-9)
    change = slope * (end - start) / level
    verdict = _verdict(slope, error, change)
    if verdict != "flat" and _verdict(late, late_error, late * (end - start) / 2 / level) != verdict:
        verdict = f"{verdict}, level later"
    first, last = y[x <= start + window].mean(), y[x >= end - window].mean()
    return Trend(float(first), float(last), slope * 60, error * 60, change, late * 60, verdict)


def _line(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope of the least-squares line, and its standard error."""
    away = x - x.mean()
    spread = float((away**2).sum())
    slope = float((away * y).sum()) / spread
    rest = y - y.mean() - slope * away
    return slope, float(np.sqrt((rest**2).sum() / max(len(x) - 2, 1) / spread))


def _verdict(slope: float, error: float, change: float) -> str:
    if abs(slope) <= _CERTAIN * error or abs(change) < _NOTICEABLE:
        return "flat"
    return "grows" if slope > 0 else "falls"


def trends(samples: Sequence[Sample]) -> dict[str, Trend]:
    """Return the trend of each quantity that has one."""
    found: dict[str, Trend] = {}
    for name in dict.fromkeys(name for sample in samples for name in sample):
        known = [sample for sample in samples if name in sample]
        trend = trend_of([each["minutes"] for each in known], [each[name] for each in known])
        if trend is not None and name not in ("minutes", "waves"):
            found[name] = trend
    return found


def table_of(samples: Sequence[Sample], title: str) -> Table:
    """Return the table of all quantities."""
    minutes = samples[-1]["minutes"]
    start = warm_up(minutes)
    window = min(_WINDOW, (minutes - start) / 3)
    table = Table(title=title)
    table.add_column("")
    columns = (f"min {start:.0f}-{start + window:.0f}", f"last {window:.0f} min", "per hour", "±", "change", "2nd half")
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for name, trend in trends(samples).items():
        figures = (trend.first, trend.last, trend.per_hour, trend.error)
        verdict = "by design" if name in BY_DESIGN else trend.verdict
        shown = [f"{each:,.1f}" for each in figures]
        table.add_row(name, *shown, f"{trend.change:+.1%}", f"{trend.late_per_hour:,.1f}", verdict)
    return table
