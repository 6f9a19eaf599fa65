"""A drawing in SVG: boxes, arrows and text, in colours for light and for dark pages.

A browser chooses between the colours by the scheme of the page that shows the picture. Each drawing has a background of
its own, so it can also be read where the scheme is not passed on.

Not Mermaid: the site takes nothing from elsewhere, so it would have to bring along 3 MB of JavaScript, and package
indexes and many editors show a diagram's text instead of the diagram.
"""

from collections.abc import Sequence
from html import escape

Point = tuple[float, float]

_LIGHT = {
    "panel": "#ffffff",
    "ink": "#1f2430",
    "muted": "#5b6270",
    "line": "#7b8494",
    "plain": "#f1f3f6",
    "blue": "#e3ecfb",
    "blue-line": "#3566b8",
    "green": "#e0f2e5",
    "green-line": "#2a7340",
    "orange": "#fdecd4",
    "orange-line": "#9c5412",
}
_DARK = {
    "panel": "#1c1f27",
    "ink": "#e6e9ef",
    "muted": "#aab2c0",
    "line": "#8791a3",
    "plain": "#2a2e38",
    "blue": "#22334f",
    "blue-line": "#8fb4ee",
    "green": "#1e3b29",
    "green-line": "#7fcb96",
    "orange": "#46321b",
    "orange-line": "#e8ad6a",
}
_RULES = """\
text { font: 14px system-ui, sans-serif; fill: var(--ink); }
.strong { font-weight: 600; }
.code { font-family: ui-monospace, monospace; font-size: 13px; }
.small { font-size: 13px; }
.muted { fill: var(--muted); }
.panel { fill: var(--panel); stroke: none; }
.plain { fill: var(--plain); stroke: var(--line); }
.blue { fill: var(--blue); stroke: var(--blue-line); }
.green { fill: var(--green); stroke: var(--green-line); }
.orange { fill: var(--orange); stroke: var(--orange-line); }
.thick { fill: none; stroke-width: 2; }
.line { fill: none; stroke: var(--line); stroke-width: 1.5; }
.bold { stroke: var(--orange-line); stroke-width: 3; }
.faint { stroke-width: 0.6; }
.dashed { stroke-dasharray: 5 4; }
.head { fill: var(--line); }"""


class Drawing:
    """One picture. Lengths are in pixels, from the upper left corner."""

    def __init__(self, width: int, height: int, *, title: str) -> None:
        """Begin a picture; `title` says what it shows, for those who do not see it."""
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def text(self, x: float, y: float, text: str, *, kind: str = "", anchor: str = "middle") -> None:
        """Write one line whose middle (or `start`, or `end`) is at `x`, and whose baseline is at `y`."""
        kinds = f' class="{kind}"' if kind else ""
        self._parts.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kinds}>{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, *, kind: str = "plain") -> None:
        """Draw a box with round corners."""
        size = f'width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect x="{x:g}" y="{y:g}" {size} rx="6" class="{kind}"/>')

    def diamond(self, x: float, y: float, *, kind: str) -> None:
        """Draw a small diamond around a point."""
        corners = " ".join(f"{x + right:g},{y + down:g}" for right, down in ((0, -9), (9, 0), (0, 9), (-9, 0)))
        self._parts.append(f'<polygon points="{corners}" class="{kind}"/>')

    def circle(self, x: float, y: float, radius: float, *, kind: str = "plain") -> None:
        """Draw a circle around a point."""
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="{kind}"/>')

    def line(self, points: Sequence[Point], *, kind: str = "line", arrow: bool = False) -> None:
        """Draw a line through the points, with the head of an arrow at the last one if `arrow`."""
        path = " L".join(f"{x:g},{y:g}" for x, y in points)
        head = ' marker-end="url(#head)"' if arrow else ""
        self._parts.append(f'<path d="M{path}" class="{kind}"{head}/>')

    def svg(self) -> str:
        """Return the text of the file."""
        light, dark = (";".join(f"--{name}:{colour}" for name, colour in kind.items()) for kind in (_LIGHT, _DARK))
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>\nsvg {{ {light} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}",
                f"{_RULES}\n</style>",
                '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
                'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L10,5 L0,10 z" class="head"/></marker>',
                f'<rect width="{self.width}" height="{self.height}" rx="8" class="panel"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
