"""The page about testing works as printed, its crash test with real kills included."""

import re
from pathlib import Path

import pytest

from anchorbolt.testing import FaultPoint
from tests.docs.conftest import TypeCommands
from tests.docs.pages import Page, read_page


@pytest.fixture
def page() -> Page:
    return read_page("docs/testing.md")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_examples_run_as_printed(page: Page, directory: Path, type_commands: TypeCommands) -> None:
    assert page.save_files(directory) == ["visits.py", "test_visits.py", "test_redis.py", "test_crashes.py"]
    seen = type_commands(page.commands(without=set()))
    assert [line.pattern for line in page.shown() if not line.search(seen)] == [], seen


def test_the_table_says_of_every_fault_point_who_is_there_and_what_a_fault_can_be_for() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if "| `" in line]
    said = {
        name: (who, can_be_for)
        for names, who, can_be_for, _ in (row for row in rows if len(row) == 4)
        for name in re.findall(r"`(\w+)`", names)
    }
    assert said == {point.name: ("driver" if point.on_driver else "worker", can_be_for(point)) for point in FaultPoint}


def can_be_for(point: FaultPoint) -> str:
    named = {"component": point.has_component, "task": point.has_task, "txid": point.first_txid is not None}
    return ", ".join(name for name, there in named.items() if there) or "nothing but `nth`"
