"""Compare a page of the site with the page as code hosts show it.

Code hosts read Markdown by CommonMark's rules and GitHub's tables. MkDocs has older rules: a list needs an empty line
before it, and what belongs to a list item is indented by four spaces. A page that breaks them is not an error for
MkDocs: it shows a list as running text.
"""

from collections import Counter
from html.parser import HTMLParser

from markdown_it import MarkdownIt

_HEADINGS = ("h1", "h2", "h3", "h4")
_COUNTED = (*_HEADINGS, "ul", "ol", "li", "li pre", "pre", "table", "tr", "blockquote", "em", "strong", "img")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


class _Tags(HTMLParser):
    """Counts the elements, and as "li pre" the blocks of code within a list item."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.depth = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.counts[tag] += 1
        self.counts["li pre"] += tag == "pre" and self.depth > 0
        self.depth += tag == "li"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "li"


def differences(markdown: str, html: str) -> dict[str, tuple[int, int]]:
    """Return the elements of which the site does not show as many as code hosts do.

    Args:
        markdown: the text of the page.
        html: what the site shows of it.

    Returns:
        The tag, and how many of it code hosts and the site show.
    """
    expected, shown = _Tags(_MARKDOWN.render(markdown)).counts, _Tags(html).counts
    return {tag: (expected[tag], shown[tag]) for tag in _COUNTED if expected[tag] != shown[tag]}
