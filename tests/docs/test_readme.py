"""The README's job is the example's, runs as printed, and passes its unit test as printed."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.docs.conftest import TypeCommands
from tests.docs.pages import ROOT, Page, read_page

WITHOUT = {"Two commands", "Installing it"}


@pytest.fixture
def page() -> Page:
    return read_page("README.md")


def test_the_job_is_the_text_of_the_example(page: Page) -> None:
    [job] = [block.text for block in page.blocks if block.file == "word_count.py"]
    example = (ROOT / "examples/word_count/job.py").read_text(encoding="utf-8")
    _, _, without_docstring = example.partition('"""\n\n')
    body, guard, _ = without_docstring.partition("\n\nif __name__")
    assert guard
    assert job == body


def test_the_commands_for_make_are_targets_of_it(page: Page) -> None:
    [block] = [block for block in page.blocks if block.section == "Two commands"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = re.findall(r"^make (\S+)", block.text, re.MULTILINE)
    assert named == ["demo", "test"]
    assert set(named) <= set(targets)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_and_its_unit_test_run_as_printed(
    page: Page, directory: Path, type_commands: TypeCommands
) -> None:
    assert page.save_files(directory) == ["word_count.py", "test_word_count.py"]
    assert "1 passed" in type_commands(page.commands(without=WITHOUT))
    rows = sorted(map(tuple, map(dict.values, pq.read_table(directory / "out").to_pylist())))
    assert rows == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]
    assert (directory / "anchorbolt-data").is_dir()
