"""The examples of docs/storm_bytes.md, run one after another."""

from typing import Any

import pytest

from tests.docs.pages import read_page


def test_the_examples_run_and_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    page = read_page("docs/storm_bytes.md")
    names: dict[str, Any] = {}
    for block in page.blocks:
        if block.language == "python":
            exec(block.text, names)
    shown = [block.text for block in page.blocks if block.language == "text"]
    assert [capsys.readouterr().out.strip()] == [text.strip() for text in shown]
    assert names["decoder"].decode_key(b"\x01\x00acme.Colou\xf2\x01\x02").to_json()["v"] == "GREEN"
