"""Reads a page of the documentation as its reader does: what to save, what to type, what is shown then."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)$")
_SAVE_AS = re.compile(r"[Ss]ave (?:this|it) as `([\w./]+)`:$")
_HEADING = re.compile(r"^#+ (.+)$")
_NUMBER = re.compile(r"\d[\d,.]*\d|\d")
_RECOVERY = re.compile("rolled back|rolled forward|resumed")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    section: str
    file: str
    text: str


class Page:
    """The blocks of a page, in order."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks = blocks

    def save_files(self, directory: Path) -> list[str]:
        """Save every block that the page says to save; return the names."""
        files = {block.file: block.text for block in self.blocks if block.file}
        for name, text in files.items():
            (directory / name).write_text(text, encoding="utf-8")
        return list(files)

    def commands(self, *, without: set[str]) -> list[str]:
        """Return the blocks of what the page says to type, but for these sections."""
        return [block.text for block in self.blocks if block.language == "sh" and block.section not in without]

    def shown(self) -> list[re.Pattern[str]]:
        """Return the lines that the page shows as output, numbers and the person's directory left open."""
        lines = [line for block in self.blocks if block.language == "text" for line in block.text.splitlines()]
        return [_pattern(line) for line in lines]


def read_page(name: str) -> Page:
    """Read a page by its path in the repository."""
    blocks: list[Block] = []
    section = file = ""
    language: str | None = None
    text: list[str] = []
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        fence = _FENCE.match(line)
        if language is not None:
            if fence:
                blocks.append(Block(language, section, file, "".join(f"{part}\n" for part in text)))
                language, file, text = None, "", []
            else:
                text.append(line)
        elif fence:
            language = fence[1]
        elif heading := _HEADING.match(line):
            section = heading[1]
        elif line:
            named = _SAVE_AS.search(line)
            file = named[1] if named else ""
    return Page(blocks)


def _pattern(line: str) -> re.Pattern[str]:
    parts = re.split(f"({_NUMBER.pattern}|{_RECOVERY.pattern}|/home/you/quickstart)", line)
    return re.compile("".join(map(_open, parts)))


def _open(part: str) -> str:
    if _NUMBER.fullmatch(part):
        return r"\d[\d,.]*"
    if _RECOVERY.fullmatch(part):
        return f"(?:{_RECOVERY.pattern})"
    return "/.+" if part == "/home/you/quickstart" else re.escape(part)
