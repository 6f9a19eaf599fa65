"""The page about testing works as printed, its crash test with real kills included."""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorbolt.testing import FaultPoint
from tests.docs.conftest import TypeCommands
from tests.docs.pages import Page, read_page


@pytest.fixture
def page() -> Page:
    return read_page("docs/testing.md")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_examples_run_as_printed(page: Page, directory: Path, type_commands: TypeCommands) -> None:
    assert page.save_files(directory) == ["visits.py", "test_visits.py", "test_crashes.py"]
    seen = type_commands(page.commands(without=set()))
    assert [line.pattern for line in page.shown() if not line.search(seen)] == [], seen


def test_every_fault_point_is_in_the_table() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text()
    assert [point.name for point in FaultPoint if f"`{point.name}`" not in text] == []
