"""Reads a page of the documentation as its reader does: what to save, what to type, what is shown then."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_PART = re.compile(
    r"^#+ (?P<heading>[^\n]+)$|^```(?P<language>\w*)\n(?P<text>.*?)^```$|^[^\n]+$", re.MULTILINE | re.DOTALL
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
    """A fenced block."""

    language: str
    section: str
    file: str
    text: str


class Page:
    """The blocks of a page, in order."""

    def __init__(self, name: str) -> None:
        """Read a page by its path in the repository."""
        self.blocks: list[Block] = []
        section = file = ""
        for part in _PART.finditer(text_of(name)):
            if part["heading"]:
                section = part["heading"]
            elif part["text"] is not None:
                self.blocks.append(Block(part["language"], section, file, part["text"]))
                file = ""
            else:
                named = _SAVE_AS.search(part[0])
                file = named[1] if named else ""

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
