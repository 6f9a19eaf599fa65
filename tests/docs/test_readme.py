"""The README's job is the example's, runs as printed, and passes its unit test as printed."""

import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from anchorbolt.config.loading import load_conf
from tests.docs.conftest import TypeCommands
from tests.docs.pages import ROOT, Page, read_page

OTHER_STORES = "Another store"  # the tests of the examples run the job on each of them
WITHOUT = {"Two commands", "Install", OTHER_STORES}


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


def test_the_commands_for_other_stores_name_the_job_and_each_store_by_set_alone(page: Page) -> None:
    chosen = []
    for block in page.blocks:
        if block.section == OTHER_STORES:
            arguments = shlex.split(block.text.replace("\\\n", ""))
            assert arguments[:4] == ["anchorbolt", "run", "word_count.py:topology", "--until-empty"]
            assert set(arguments[4::2]) == {"--set"}
            chosen.append(load_conf(overrides=arguments[5::2]).settings.provider.name)
    assert chosen == ["redis", "redis-cluster", "hbase"]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_job_and_its_unit_test_run_as_printed(page: Page, directory: Path, type_commands: TypeCommands) -> None:
    assert page.save_files(directory) == ["word_count.py", "test_word_count.py"]
    assert "1 passed" in type_commands(page.commands(without=WITHOUT))
    rows = sorted(map(tuple, map(dict.values, pq.read_table(directory / "out").to_pylist())))
    assert rows == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]
    assert (directory / "anchorbolt-data").is_dir()
