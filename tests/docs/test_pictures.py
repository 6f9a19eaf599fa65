"""The pictures of the pages are what `make docs-pictures` draws, from the code as it is, and takes of the page."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.docs.pages import ROOT


def test_the_pictures_are_what_the_command_draws(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "pictures" / "draw.py"), str(tmp_path)], check=True)
    drawn = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "pictures").glob("*.svg")}
    assert [
        name for name, text in drawn.items() if ElementTree.fromstring(text).tag != "{http://www.w3.org/2000/svg}svg"
    ] == []


def test_every_picture_is_on_a_page_and_has_a_text_for_those_who_do_not_see_it() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    for path in (ROOT / "docs" / "pictures").iterdir():
        before, on_page, _ = pages.partition(f"](pictures/{path.name})")
        assert on_page, path.name
        assert len(before.rpartition("![")[2]) > 80
