"""Reads a page of the documentation as its reader does: what to save, what to type, what is shown then."""

import re
import textwrap
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PART = re.compile(
    r"^#+ (?P<heading>[^\n]+)$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$"
    r"|^ *<!-- (?P<comment>.*?) -->$"
    r"|^[^\n]+$",
    re.MULTILINE | re.DOTALL,
)
_SAVE_AS = re.compile(r"[Ss]ave (?:this|it) as `([\w./]+)`:$")
_RECOVERY = "rolled back|rolled forward|resumed"
# What differs from one reader to another, and what may be there instead.
_OPEN = {r"\d[\d,.]*\d|\d": r"\d[\d,.]*", _RECOVERY: f"(?:{_RECOVERY})", "/home/you/quickstart": "/.+"}


def text_of(name: str) -> str:
    """Read a file by its path in the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        line: the number of its first line on the page.
        comment: what an HTML comment directly before it says; empty without one.
    """

    line: int
    language: str
    section: str
    file: str
    comment: str
    text: str


class Page:
    """The blocks of a page, in order."""

    def __init__(self, name: str) -> None:
        """Read a page by its path in the repository."""
        self.blocks: list[Block] = []
        section = file = comment = ""
        page = text_of(name)
        for part in _PART.finditer(page):
            if part["heading"]:
                section = part["heading"]
            elif part["comment"]:
                comment = " ".join(part["comment"].split())
            elif part["text"] is not None:
                line = page.count("\n", 0, part.start()) + 1
                text = textwrap.dedent(part["text"])
                self.blocks.append(Block(line, part["language"], section, file, comment, text))
                file = comment = ""
            else:
                named = _SAVE_AS.search(part[0])
                file, comment = named[1] if named else "", ""

    def save_files(self, directory: Path) -> list[str]:
        """Save every block that the page says to save; return the names."""
        files = {block.file: block.text for block in self.blocks if block.file}
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
        return list(files)

    def commands(self, without: Collection[str]) -> list[str]:
        """Return the blocks of what the page says to type, but for these sections."""
        return [block.text for block in self.blocks if block.language == "sh" and block.section not in without]

    def missing_in(self, seen: str, without: Collection[str]) -> list[str]:
        """Return the lines that the page shows as output, but for these sections, and that were not seen."""
        shown = [block.text for block in self.blocks if block.language == "text" and block.section not in without]
        return [line for text in shown for line in text.splitlines() if not re.search(_pattern(line), seen)]


def _pattern(line: str) -> str:
    parts = re.split(f"({'|'.join(_OPEN)})", line)
    return "".join(
        next((now for shown, now in _OPEN.items() if re.fullmatch(shown, part)), re.escape(part)) for part in parts
    )
