"""The page for authors of providers: its tests pass as printed, and its excerpts are the example's own text."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import StateStorage
from tests.docs.conftest import TypeCommands
from tests.docs.pages import ROOT, Page, read_page
from tests.support.postgres_server import PostgresServer

EXAMPLE = ROOT / "examples" / "postgres_provider"
TEXT = (ROOT / "docs" / "custom_provider.md").read_text(encoding="utf-8")


@pytest.fixture
def page() -> Page:
    return read_page("docs/custom_provider.md")


def lines_of(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines())


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tests_pass_as_printed(
    page: Page,
    directory: Path,
    type_commands: TypeCommands,
    postgres_server: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert page.save_files(directory) == ["test_postgres.py"]
    shutil.copytree(EXAMPLE, directory / EXAMPLE.name)
    monkeypatch.setenv("PGPORT", str(postgres_server.port))
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    seen = type_commands(page.commands(without={"Run a job with it"}))
    assert [line.pattern for line in page.shown() if not line.search(seen)] == [], seen
    assert "failed" not in seen


def test_the_excerpts_are_the_examples_own_text(page: Page) -> None:
    excerpts = [block.text for block in page.blocks if block.language == "python" and not block.file]
    source = "\n".join("\n".join(lines_of(path.read_text())) for path in sorted(EXAMPLE.glob("*.py")))
    assert len(excerpts) == 3
    assert [excerpt for excerpt in excerpts if "\n".join(lines_of(excerpt)) not in source] == []


def test_every_step_and_every_rule_is_named() -> None:
    steps = set(StateStorage.__abstractmethods__) - {"close"}
    named = {name for name in rules.__all__ if name.startswith(("check_", "next_", "sealed_", "head_"))}
    assert {name for name in steps | (named - {"check_attempt"}) if f"`{name}`" not in TEXT} == set()
