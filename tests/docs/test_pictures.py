"""The pictures of the pages are what `make docs-pictures` draws, from the code as it is, and takes of the page."""

import json
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


def test_the_charts_show_each_side_and_each_value_of_what_the_benchmarks_measured(tmp_path: Path) -> None:
    rates = {"Anchorbolt files, SQLite": {"words_per_second": 959_000.0}, "Peer": {"words_per_second": 30_000.0}}
    large, small = (
        {"title": title, "sentences": size, "sides": rates} for title, size in (("1 M", 100_000), ("20", 20))
    )
    points = [{"label": label, "sides": rates} for label in ("10", "100 k")]
    documents = {
        "bars": {"workloads": [large, small]},
        "lines": {"sweeps": [{"title": "Size of a batch", "axis": "words", "points": points}]},
    }
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    program = ROOT / "tools" / "pictures" / "charts.py"
    subprocess.run([sys.executable, program, tmp_path, *tmp_path.glob("*.json")], check=True)
    texts = {
        name: [each.text for each in ElementTree.parse(tmp_path / f"{name}.svg").iter() if each.tag.endswith("}text")]
        for name in documents
    }
    assert texts["bars"] == ["1 M: words/s", "Anchorbolt files, SQLite", "959,000", "Peer", "30,000"]
    assert {"Anchorbolt files, SQLite", "Peer", "Size of a batch: words/s", "10", "100 k"} <= set(texts["lines"])


def test_every_picture_is_on_a_page_and_has_a_text_for_those_who_do_not_see_it() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
    for path in (ROOT / "docs" / "pictures").iterdir():
        before, on_page, _ = pages.partition(f"](pictures/{path.name})")
        assert on_page, path.name
        assert len(before.rpartition("![")[2]) > 80
