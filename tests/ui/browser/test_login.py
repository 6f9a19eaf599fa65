"""The form that asks a browser for the token, and what opens with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from anchorbolt.config import Secret
from anchorbolt.ui import UiServer
from tests.ui.browser.conftest import DEADLINE_S, OpenPage, start

TOKEN = "0123456789abcdef-token"


@pytest.fixture
def server() -> Iterator[UiServer]:
    """A server that wants the token for reading, too; it listens on all addresses of this machine."""
    made = UiServer("words", port=0, host="0.0.0.0", token=Secret(TOKEN))
    yield made
    made.close()


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_is_asked_for_the_token_once(server: UiServer, open_page: OpenPage, scheme: str, width: int) -> None:
    address = server.address.replace("0.0.0.0", "127.0.0.1")
    visit = open_page(address, scheme=scheme, width=width)
    expect(visit.page).to_have_url(f"{address}login")
    visit.screenshot("login")
    assert visit.faults() == []
    visit.page.get_by_label("Token of this topology's page").fill(TOKEN)
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("#status")).to_have_text("starting")
    visit.page.reload()
    expect(visit.page.locator("#status")).to_have_text("starting")
    assert [each for each in visit.troubles if not each.startswith("303: ")] == []


def test_the_button_stops_the_run_of_somebody_with_the_token(open_page: OpenPage, tmp_path: Path) -> None:
    handle = start(1, str(tmp_path / "checkpoint"), "")
    server = UiServer(handle.topology, port=0, token=Secret(TOKEN), actions=True)
    try:
        server.show(handle)
        visit = open_page(f"{server.address}login")
        visit.page.on("dialog", lambda dialog: dialog.accept())
        visit.page.get_by_label("Token of this topology's page").fill(TOKEN)
        visit.page.keyboard.press("Enter")
        visit.page.locator("#stop").click()
        assert handle.await_termination(DEADLINE_S)
        expect(visit.page.locator("#status")).to_have_text("stopped")
        assert [each for each in visit.troubles if not each.startswith("303: ")] == []
    finally:
        server.close()
        handle.stop()
