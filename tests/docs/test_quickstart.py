"""The quickstart works as printed, kill -9 and Redis included, and shows what it says that it shows."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.conftest import TypeCommands
from tests.docs.pages import Page, read_page
from tests.support.server_process import free_port

PORT = "6380"


@pytest.fixture
def page() -> Page:
    return read_page("docs/quickstart.md")


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quickstart_works_as_printed(
    page: Page, directory: Path, type_commands: TypeCommands, redis_program: str
) -> None:
    assert page.save_files(directory) == ["totals.py", "test_totals.py", "make_orders.py", "check.py"]
    # The one thing that a test cannot take as printed: the port may be in use on this machine.
    port = str(free_port())
    scripts = [text.replace(PORT, port) for text in page.commands(without={"Install"})]
    seen = type_commands(scripts)
    assert [line.pattern for line in page.shown() if not line.search(seen)] == [], seen
    totals = re.search(r"equal: True (\{.+\})", seen)
    assert totals is not None, seen
    in_redis = dict(re.findall(r'^"(ann|bob|eve)"\n(\d+)$', seen, re.MULTILINE))
    assert {name: int(total) for name, total in in_redis.items()} == ast.literal_eval(totals[1])
