"""The charts of the benchmarks, from the JSON that these write: `charts.py DIRECTORY FILE.json …` draws other files."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from svg import Drawing

_WIDTH, _MARGIN = 760, 24
_OURS = "Anchorbolt"
_COLOURS = ("green", "blue", "orange")

Document = Mapping[str, Any]
"""What a benchmark has written."""


def drawing(document: Document) -> Drawing:
    """Draw bars for the workloads of `make bench`, or lines for the sweeps of `make bench-sweeps`."""
    return _bars(document) if "workloads" in document else _lines(document)


def _bars(document: Document) -> Drawing:
    """Draw each side's words/s, for the workloads that have large batches."""
    left, right, step, head = 230, 150, 24, 44
    panels = [each for each in document["workloads"] if each["sentences"] >= 1_000]
    height = sum(head + step * len(panel["sides"]) for panel in panels) + _MARGIN
    picture = Drawing(_WIDTH, height, title="Words counted in a second, by side: " + _listed(panels, "title"))
    y = 0.0
    for panel in panels:
        rates = {side: figures["words_per_second"] for side, figures in panel["sides"].items()}
        picture.text(_MARGIN, y + 30, f"{panel['title']}: words/s", kind="strong", anchor="start")
        y += head
        for side, rate in rates.items():
            length = rate / max(rates.values()) * (_WIDTH - left - right)
            picture.text(left - 8, y + 14, side, kind="small", anchor="end")
            picture.box(left, y, length, step - 6, kind="green" if side.startswith(_OURS) else "blue")
            picture.text(left + length + 8, y + 14, f"{rate:,.0f}", kind="small", anchor="start")
            y += step
    return picture


def _lines(document: Document) -> Drawing:
    """Draw a panel for each sweep: words/s of each side against the quantity."""
    sweeps, height, top = document["sweeps"], 250, 50
    sides = list(sweeps[0]["points"][0]["sides"])
    rows = math.ceil(len(sweeps) / 2)
    title = "Words counted in a second against one quantity each: " + _listed(sweeps, "title")
    picture = Drawing(_WIDTH, top + rows * height, title=title)
    for number, side in enumerate(sides):
        picture.circle(_MARGIN + 6 + number * 230, 28, 5, kind=_COLOURS[number])
        picture.text(_MARGIN + 18 + number * 230, 33, side, kind="small", anchor="start")
    for number, sweep in enumerate(sweeps):
        _panel(picture, number % 2 * _WIDTH / 2, top + number // 2 * height, height, sweep, sides)
    return picture


def _panel(picture: Drawing, left: float, top: float, height: float, sweep: Document, sides: Sequence[str]) -> None:
    points = sweep["points"]
    x, y, width, depth = left + 88, top + 36, _WIDTH / 2 - 112, height - 90
    highest = _above(max(figures["words_per_second"] for point in points for figures in point["sides"].values()))
    picture.text(left + _MARGIN, top + 18, f"{sweep['title']}: words/s", kind="strong", anchor="start")
    for fourth in range(5):
        level = y + depth * (1 - fourth / 4)
        picture.line([(x, level), (x + width, level)], kind="line faint")
        picture.text(x - 8, level + 5, f"{highest * fourth / 4:,.0f}", kind="small muted", anchor="end")
    places = [x + width * (number + 0.5) / len(points) for number in range(len(points))]
    for place, point in zip(places, points, strict=True):
        picture.text(place, y + depth + 18, point["label"], kind="small muted")
    picture.text(x + width / 2, y + depth + 36, sweep["axis"], kind="small muted")
    for colour, side in zip(_COLOURS, sides, strict=False):
        rates = [point["sides"][side]["words_per_second"] for point in points]
        line = [(place, y + depth * (1 - rate / highest)) for place, rate in zip(places, rates, strict=True)]
        picture.line(line, kind=f"{colour} thick")
        for at in line:
            picture.circle(*at, 3.5, kind=colour)


def _above(value: float) -> float:
    """Return the next round number."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 4, 8, 10) if factor * power >= value)


def _listed(parts: Sequence[Document], key: str) -> str:
    return ", ".join(part[key] for part in parts)


def main() -> None:
    """Draw the named files into the named directory."""
    directory, *files = map(Path, sys.argv[1:])
    directory.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = directory / f"{file.stem}.svg"
        path.write_text(drawing(json.loads(file.read_text(encoding="utf-8"))).svg(), encoding="utf-8")
        print(f"drawn: {path}")


if __name__ == "__main__":
    main()
