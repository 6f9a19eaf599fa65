"""The documentation's site (`make docs`): what is on it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.test_public_names import PUBLIC
from tests.docs.pages import ROOT

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "docs_site")]

from api_pages import public_modules  # noqa: E402 (the tools are scripts, not a package)
from own_environment import DOCS  # noqa: E402

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def paths_in(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from paths_in(inner)


def test_the_navigation_names_every_page_once() -> None:
    named = list(paths_in(CONFIG["nav"]))
    assert len(set(named)) == len(named)
    folders = tuple(path for path in named if path.endswith("/"))
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert pages == {page for page in pages if page in named or page.startswith(folders)}
    assert [path for path in named if path != "docs/api/" and not (ROOT / path).exists()] == []


def test_the_reference_has_a_page_for_each_public_module() -> None:
    assert set(public_modules(ROOT)) == {*PUBLIC, "anchorbolt.errors"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    python = DOCS.python()
    if python is None:
        pytest.skip("`make docs` installs MkDocs")
    directory = tmp_path_factory.mktemp("site")
    mkdocs = [str(python), "-I", "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "mkdocs.yml")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run([*mkdocs, "--site-dir", str(directory)], env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return directory


@pytest.mark.thorough
@pytest.mark.slow
def test_the_site_has_every_page_and_every_public_name(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages = {page.with_name("index.html") if page.stem == "README" else page for page in pages}
    assert {page for page in pages if not (site / page).exists()} == set()
    for module, names in PUBLIC.items():
        anchors = set(re.findall(r'id="([^"]+)"', (site / "api" / f"{module}.html").read_text()))
        assert {f"{module}.{name}" for name in names.split() if name != "__version__"} <= anchors


@pytest.mark.thorough
@pytest.mark.slow
def test_the_site_takes_nothing_from_elsewhere(site: Path) -> None:
    foreign = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    imported = re.compile(r"""(?:url\(|@import\s)["']?(?:https?:)?//[^)"']*""")
    found = {
        path.relative_to(site).as_posix(): hits
        for pattern, kind in ((foreign, "html"), (imported, "css"))
        for path in site.rglob(f"*.{kind}")
        if (hits := pattern.findall(path.read_text(encoding="utf-8")))
    }
    assert found == {}
