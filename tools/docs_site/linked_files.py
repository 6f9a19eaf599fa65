"""Find the files of the repository that the documentation links to, wherever they are."""

import posixpath
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark").enable("table")


def linked_files(root: Path, pages: Iterable[str]) -> set[str]:
    """Return the files that these pages link to, and the files that those link to, and so on.

    Links to directories and to files that do not exist are left out: MkDocs then warns of the dead link.

    Args:
        root: the repository.
        pages: paths of Markdown files, relative to the repository.
    """
    found: set[str] = set()
    waiting = list(pages)
    while waiting:
        page = waiting.pop()
        if page.endswith(".md"):
            targets = set(_targets(page, (root / page).read_text(encoding="utf-8"))) - found
            there = {target for target in targets if not target.startswith("..") and (root / target).is_file()}
            found |= there
            waiting += there
    return found


def _targets(page: str, text: str) -> Iterator[str]:
    """Yield the paths, relative to the repository, that a page links to or shows as pictures."""
    for block in _MARKDOWN.parse(text):
        for token in block.children or ():
            target = token.attrGet("href") or token.attrGet("src")
            if target is not None:
                parts = urlsplit(str(target))
                if parts.path and not parts.scheme and not parts.netloc:
                    yield posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path)))
