"""The page of a driver that ends under it: a real driver on Spark, killed, and a server that comes back."""

from __future__ import annotations

import os
import re
import signal
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import expect

from anchorbolt.ui import UiServer
from tests.cli.command import ROOT, Command, run_arguments
from tests.ui.browser.conftest import OpenPage
from tests.ui.browser.visit import PATIENCE_MS, Visit, text_of

SAID_WITHIN_MS = 3000


def await_no_answer(visit: Visit, within_ms: float) -> None:
    expect(visit.page.locator("#status")).to_have_text("no answer", timeout=within_ms)
    expect(visit.page.get_by_role("alert")).to_contain_text("has not answered since")


@pytest.mark.timeout(900)
def test_a_driver_on_spark_is_shown_without_an_error_and_its_death_within_three_seconds(
    open_page: OpenPage, tmp_path: Path
) -> None:
    job = f"{ROOT / 'examples' / 'word_count' / 'job.py'}:topology"
    with closing(Command(run_arguments(job, "--ui-port", "0", "--master", "local[2]"), directory=tmp_path)) as command:
        command.wait_for("page: ")
        visit = open_page(re.findall(r"^page: (\S+)", command.out, re.MULTILINE)[0], width=1100)
        expect(visit.page.locator("#status")).to_have_text(re.compile("starting|active"))
        command.wait_for("wave 0")
        for name in visit.views():
            visit.open_view(name)
            visit.screenshot(f"spark-{name}")
            assert visit.faults() == []
        visit.open_view("components")
        visit.follow("#c-count")
        visit.screenshot("spark-component")
        assert visit.faults() == []
        assert visit.troubles == []
        os.kill(command.pid, signal.SIGKILL)
        await_no_answer(visit, SAID_WITHIN_MS)
        visit.screenshot("spark-killed")
        assert visit.faults() == []
        assert "How its 2 tasks differ" in text_of(visit), "what was known last stays"


def test_a_page_goes_on_by_itself_once_the_driver_answers_again(open_page: OpenPage) -> None:
    server = UiServer("words", port=0)
    port = int(server.address.rsplit(":", 1)[1].rstrip("/"))
    visit = open_page(server.address)
    expect(visit.page.locator("#status")).to_have_text("starting")
    server.close()
    await_no_answer(visit, PATIENCE_MS)
    again = UiServer("words", port=port)
    try:
        expect(visit.page.locator("#status")).to_have_text("starting", timeout=PATIENCE_MS)
        expect(visit.page.locator("#trouble")).to_be_hidden()
    finally:
        again.close()
