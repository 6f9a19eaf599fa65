"""Every block of every page is run by a test, or says why not; and those that can be checked at once are checked here.

A page says it by an HTML comment before the block: `<!-- not run: why -->`, or `<!-- run by tests/… -->` with the test
that runs it, if that is neither `test_as_printed.py` nor one of this file. The blocks of YAML are configurations, which
this file reads.
"""

import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from anchorbolt.cli.main import app
from anchorbolt.config import load_conf
from tests.docs.followed import FOLLOWED, Followed
from tests.docs.pages import ROOT, Block, Page, text_of

FILES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
NAMES = sorted(path.relative_to(ROOT).as_posix() for path in FILES)
PAGES = {name: page for name in NAMES if (page := Page(name)).blocks}
BLOCKS = [pytest.param(name, block, id=f"{name}:{block.line}") for name, page in PAGES.items() for block in page.blocks]
NOT_RUN = re.compile(r"not run: \S.{9,}")
RUN_BY = re.compile(r"run by (tests/[\w/]+\.py)")


def of_language(language: str) -> list[Any]:
    return [each for each in BLOCKS if each.values[1].language == language]


def is_accounted_for(page: str, block: Block) -> bool:
    if block.language == "yaml" or FOLLOWED.get(page, Followed(without=(block.section,))).runs(block):
        return not block.comment
    run_by = RUN_BY.fullmatch(block.comment)
    if run_by:
        return (ROOT / run_by[1]).is_file() and Path(page).name in text_of(run_by[1])
    return NOT_RUN.fullmatch(block.comment) is not None


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page: str) -> None:
    assert [f"{page}:{block.line}" for block in PAGES[page].blocks if not is_accounted_for(page, block)] == []


def test_a_block_without_a_reason_is_found() -> None:
    for comment, found in (("", False), ("not run: no", False), ("not run: needs a cluster", True)):
        assert is_accounted_for("docs/clusters.md", Block(1, "sh", "Section", "", comment, "true")) is found
    assert not is_accounted_for("docs/clusters.md", Block(1, "sh", "Section", "", "run by tests/docs/pages.py", "true"))


@pytest.mark.parametrize(("page", "block"), of_language("yaml"))
def test_every_configuration_of_a_page_can_be_loaded(
    page: str, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in re.findall(r"passwordEnv: (\w+)", block.text):
        monkeypatch.setenv(variable, "p")
    (tmp_path / "password").write_text("p")
    text = re.sub(r"(?<=passwordFile: )[\w/-]+", str(tmp_path / "password"), block.text)
    (tmp_path / "conf.yaml").write_text(text)
    assert load_conf(file=str(tmp_path / "conf.yaml"))


@pytest.mark.parametrize(("page", "block"), of_language("sh"))
def test_every_command_of_a_page_has_these_options(page: str, block: Block) -> None:
    for line in block.text.replace("\\\n", "").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["anchorbolt"] and "…" not in line:
            arguments = list(takewhile(lambda word: not re.fullmatch(r"[&|;]|\d?>.*", word), words[1:]))
            command: Any = get_command(app)
            while hasattr(command, "commands"):
                command = command.commands[arguments.pop(0)]
            assert command.make_context(line, arguments)
