"""What MkDocs calls while it builds the documentation's site (`mkdocs.yml`).

The pages are written for code hosts, too: they link to each other and to other files of the repository by relative
paths. So within MkDocs each file has the path that it has in the repository, and MkDocs itself follows, checks and
rewrites the links. The site holds `docs/`, the README as its first page, every other file that one of these links to,
and a page for each public module.
"""

import logging
import re
from pathlib import Path
from typing import Any

from api_pages import page_of, public_modules
from linked_files import linked_files
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pymdownx.slugs import slugify
from same_structure import differences

ROOT = Path(__file__).resolve().parents[2]
START, ALL_PAGES = "README.md", "docs/README.md"
# Columns and a wide table: shown without the navigation and the table of contents beside them.
WIDE = ("docs/your_topology.md", "docs/your_topology_reference.md")

_log = logging.getLogger("mkdocs.plugins.anchorbolt")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class SourceFile(File):  # type: ignore[misc]  # MkDocs is not installed where mypy runs
    """A file of the repository that is not Markdown: the site shows it as a page with one block of code."""

    def is_documentation_page(self) -> bool:
        """Whether MkDocs makes a page of the file."""
        return True


def on_config(config: MkDocsConfig) -> None:
    """Give headings the anchors that code hosts give them."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Name all files by their paths in the repository, and add those that MkDocs does not find by itself."""
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
        path = f"docs/{file.src_uri}"
        files.append(_existing(config, path, "all-pages.html" if path == ALL_PAGES else file.dest_uri))
    files.append(_existing(config, START, "index.html"))
    pages = [file.src_uri for file in files.documentation_pages()]
    for path in sorted(linked_files(ROOT, pages) - {file.src_uri for file in files}):
        files.append(_linked(config, path))
    for module in public_modules(ROOT):
        page = File.generated(config, f"docs/api/{module}.md", content=page_of(module))
        page.dest_uri = f"api/{module}.html"
        files.append(page)
    config.nav = _with_whole_folders(config.nav, files)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> None:
    """Let Material hide what stands beside a wide page; on a phone the navigation remains in its menu."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["navigation", "toc"]


def on_page_content(html: str, page: Page, **_: Any) -> None:
    """Warn of a page that the site would show otherwise than code hosts do."""
    if page.file.generated_by is None:
        for tag, (expected, shown) in differences(page.markdown, html).items():
            _log.warning("%s has %d <%s> on a code host, %d on the site", page.file.src_uri, expected, tag, shown)


def _existing(config: MkDocsConfig, path: str, destination: str) -> File:
    return File(path, str(ROOT), config.site_dir, config.use_directory_urls, dest_uri=destination)


def _linked(config: MkDocsConfig, path: str) -> File:
    if path.endswith(".md"):
        file = _existing(config, path, f"repository/{path.removesuffix('.md')}.html")
    else:
        language = "python" if path.endswith(".py") else "text"
        text = (ROOT / path).read_text(encoding="utf-8")
        file = SourceFile.generated(config, path, content=f"# {path}\n\n``````{language}\n{text}\n``````\n")
        file.dest_uri = f"repository/{path}.html"
    # A page that the navigation names is in it all the same.
    file.inclusion = InclusionLevel.NOT_IN_NAV
    return file


def _with_whole_folders(entry: Any, files: Files) -> Any:
    """Return a part of the navigation, in which each path that ends in "/" has become the pages of that folder."""
    if isinstance(entry, dict):
        return {title: _with_whole_folders(inner, files) for title, inner in entry.items()}
    if isinstance(entry, list):
        expanded = [_with_whole_folders(inner, files) for inner in entry]
        return [page for pages in expanded for page in (pages if isinstance(pages, list) else [pages])]
    if not entry.endswith("/"):
        return entry
    titles = {file: _title(file) for file in files.documentation_pages() if file.src_uri.startswith(entry)}
    pages = sorted(titles, key=lambda page: (page.name != "index", titles[page].lower()))
    # All modules are in one package, and the column of the navigation is narrow.
    return [{titles[page].removeprefix("anchorbolt."): page.src_uri} for page in pages]


def _title(page: File) -> str:
    title = _TITLE.search(page.content_string)
    return title[1] if title else str(page.src_uri)
