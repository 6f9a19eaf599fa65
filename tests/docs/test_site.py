"""The documentation's site (`make docs`): what is on it, and that each fault of a page is one of the build."""

import os
import re
import shutil
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


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    python = DOCS.python()
    if python is None:
        pytest.skip("`make docs` installs MkDocs")
    return subprocess.run(
        [str(python), "-I", "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(site)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    directory = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", directory)
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


@pytest.fixture
def small_repository(tmp_path: Path) -> Path:
    """A repository with three pages, a program and a module, and the hooks and settings of ours."""
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "tools" / "docs_site", root / "tools" / "docs_site")
    files = {
        "mkdocs.yml": yaml.safe_dump({**CONFIG, "nav": ["README.md", "docs/README.md", "docs/a.md", "docs/api/"]}),
        "README.md": "# Start\n\n[All](docs/README.md), [a section](docs/a.md#a-section-with-a-_name_)\n",
        "docs/README.md": "# All pages\n\n[The program](../examples/run.py), [its page](../examples/README.md)\n",
        "docs/a.md": "# A\n\n## A section, with a `_name_`\n\n- [back](../README.md)\n",
        "examples/README.md": "# Example\n\n[The program](run.py), [all](../docs/README.md)\n",
        "examples/run.py": "print('hello')\n",
        "anchorbolt/__init__.py": '"""A package."""\n\n__all__ = ["f"]\n\n\ndef f():\n    """Do it."""\n',
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.thorough
@pytest.mark.slow
def test_files_outside_the_folder_of_pages_are_on_the_site_if_a_page_links_to_them(
    small_repository: Path, tmp_path: Path
) -> None:
    built = build(small_repository / "mkdocs.yml", tmp_path / "site")
    assert built.returncode == 0, built.stderr
    assert 'href="repository/examples/run.py.html"' in (tmp_path / "site" / "all-pages.html").read_text()
    assert 'href="run.py.html"' in (tmp_path / "site" / "repository" / "examples" / "README.html").read_text()
    assert "hello" in (tmp_path / "site" / "repository" / "examples" / "run.py.html").read_text()
    assert 'id="anchorbolt.f"' in (tmp_path / "site" / "api" / "anchorbolt.html").read_text()


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "added", "warning"),
    [
        pytest.param("docs/a.md", "[x](gone.md)\n", "gone.md", id="dead link"),
        pytest.param("docs/a.md", "[x](../examples/gone.py)\n", "gone.py", id="dead link out of the folder"),
        pytest.param("docs/a.md", "[x](README.md#gone)\n", "#gone", id="missing anchor"),
        pytest.param("examples/README.md", "[x](gone.md)\n", "gone.md", id="dead link of a page outside"),
        pytest.param("docs/new.md", "# New\n", "new.md", id="page that the navigation lacks"),
        pytest.param("docs/a.md", "text\n- item\n", "<ul>", id="list without an empty line before it"),
        pytest.param(
            "anchorbolt/new.py",
            '"""New.\n\nRaises:\n    As others.\n"""\n\n__all__ = []\n',
            "As others.",
            id="section of a docstring that cannot be read",
        ),
    ],
)
def test_a_fault_of_a_page_fails_the_build(
    small_repository: Path, tmp_path: Path, page: str, added: str, warning: str
) -> None:
    with (small_repository / page).open("a") as file:
        file.write(f"\n{added}")
    built = build(small_repository / "mkdocs.yml", tmp_path / "site")
    assert built.returncode != 0
    assert warning in built.stderr.partition("WARNING")[2], built.stderr
