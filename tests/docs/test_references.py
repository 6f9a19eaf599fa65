"""What the pages name exists: files, sections, errors, configuration keys, modules."""

import importlib
import importlib.util
import re
from pathlib import Path

import kafka_artefacts
import pytest

from anchorbolt import errors
from anchorbolt.config.declaration import by_key
from anchorbolt.config.providers import PROVIDER, PROVIDER_CONFIG
from anchorbolt.config.settings import Settings
from tests.docs.pages import ROOT, text_of

PAGES = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")),
]
FAILURES = ROOT / "docs" / "failures"
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
ERROR = re.compile(
    r"`(" + "|".join(["[A-Z][a-z]+(?:Error|Failed|Changed|Unavailable|Regressed|Mismatch|Corrupted)", "Fenced"]) + ")`"
)
KEY = re.compile(r"(?<![\w-])topology\.[a-z.]*[a-z](?:Env\b|File\b)?")
IMPORT = re.compile(r"^from (anchorbolt[\w.]*) import (.+)$", re.MULTILINE)
HAND_WRITTEN = ["README.md", *[page for page in PAGES if page.startswith("docs/")]]


def anchors_of(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_within_the_repository_leads_somewhere(page: str) -> None:
    for target, section in LINK.findall(text_of(page)):
        if target.startswith("http"):
            continue
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), target
        assert not section or section in anchors_of(path), f"{target}#{section}"


@pytest.mark.parametrize("page", HAND_WRITTEN)
def test_every_error_that_a_page_names_is_one_of_ours(page: str) -> None:
    assert [name for name in ERROR.findall(text_of(page)) if name not in errors.__all__] == []


@pytest.mark.parametrize("page", [page for page in HAND_WRITTEN if page != "docs/configuration.md"])
def test_every_key_that_a_page_names_has_an_effect(page: str) -> None:
    known = {PROVIDER, PROVIDER_CONFIG, *by_key(Settings)}
    named = set(KEY.findall(text_of(page)))
    assert [key for key in named if key not in known and not key.startswith("topology.state.provider.config.")] == []


@pytest.mark.parametrize("page", HAND_WRITTEN)
def test_every_name_that_a_page_imports_is_there(page: str) -> None:
    for module, names in IMPORT.findall(text_of(page)):
        package = importlib.import_module(module)
        for name in map(str.strip, names.split(",")):
            # A module of a package is its attribute only once somebody has imported it.
            there = hasattr(package, name) or (
                hasattr(package, "__path__") and importlib.util.find_spec(f"{module}.{name}")
            )
            assert there, f"{module}.{name}"


def test_every_class_of_the_page_on_testing_is_in_the_module_that_it_names() -> None:
    text = text_of("docs/testing.md")
    assert "Everything here is in `anchorbolt.testing`" in text
    named = set(re.findall(r"`((?:[A-Z][a-z]+){2,})`", text)) - {"FaultInjected", "SparkCluster"}
    assert [name for name in sorted(named) if not hasattr(importlib.import_module("anchorbolt.testing"), name)] == []


def test_the_index_names_every_page() -> None:
    index = {target for target, _ in LINK.findall(text_of("docs/README.md"))}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert index >= {page for page in pages - {"README.md"} if FAILURES.name not in Path(page).parts[:-1]}
    assert f"{FAILURES.name}/README.md" in index


def test_the_index_of_failures_names_every_page_of_them_and_every_error_that_ends_a_run() -> None:
    text = text_of("docs/failures/README.md")
    pages = {path.name for path in FAILURES.glob("*.md")} - {"README.md"}
    assert {target for target, _ in LINK.findall(text) if "/" not in target} == pages
    of_a_job = {error.__name__ for error in errors.StateError.__subclasses__()} - {"StaleAttempt"}
    of_a_job |= {"BoltError", "WaveFailed", "QueryChanged", "ConfigError", "TopologyError"}
    assert {name for name in of_a_job if f"`{name}`" not in text} == set()


def test_each_command_takes_the_connector_for_kafka_that_the_tests_run() -> None:
    (tested,) = (jar for jar in kafka_artefacts.CONNECTOR.pinned() if jar.name.startswith("spark-sql-kafka"))
    examples = [path for suffix in ("md", "py") for path in (ROOT / "examples").rglob(f"*.{suffix}")]
    texts = [text_of(page) for page in HAND_WRITTEN] + [path.read_text(encoding="utf-8") for path in examples]
    named = [version for text in texts for version in re.findall(rf"{tested.name}:(\d[\w.]*)", text)]
    assert set(named) == {tested.version}
