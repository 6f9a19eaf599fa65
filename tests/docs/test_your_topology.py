"""docs/your_topology.md shows the programs that tests/examples/your_topology runs, whole and word for word."""

import re
import textwrap

import pytest

from tests.docs.pages import ROOT, Block, Page, text_of

PAGE = "docs/your_topology.md"
PROGRAMS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "examples" / "your_topology").rglob("*")
    if path.suffix in (".java", ".py")
)
# What the page leaves out: imports, empty lines, the frame of a Java class, and the call of `main`.
LEFT_OUT = re.compile(
    r"import .*|from \S+ import .*|public class WordCount \{|\}|if __name__ == .*|\s+main\(\*sys\.argv\[1:\]\)|"
)
# tests/examples/your_topology/test_windows.py runs the blocks of the other section.
BLOCKS = [block for block in Page(PAGE).blocks if block.section != "A count by hour"]


def excerpts_of(program: str) -> list[str]:
    """Return the blocks of the page that are consecutive lines of this program."""
    lines = text_of(program).splitlines()
    found = []
    for block in BLOCKS:
        shown = block.text.splitlines()
        parts = (lines[start : start + len(shown)] for start in range(len(lines) - len(shown) + 1))
        if any(textwrap.dedent("\n".join(part)).splitlines() == shown for part in parts):
            found.append(block.text)
    return found


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"line {block.line}")
def test_every_block_is_an_excerpt_of_a_program(block: Block) -> None:
    assert any(block.text in excerpts_of(program) for program in PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_line_of_a_program_is_shown(program: str) -> None:
    shown = {line.strip() for text in excerpts_of(program) for line in text.splitlines()}
    lines = [line for line in text_of(program).splitlines() if not LEFT_OUT.fullmatch(line)]
    assert [line for line in lines if line.strip() not in shown] == []
