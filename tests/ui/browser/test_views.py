"""Each view of the page in a real Chromium: small and large topologies, light and dark, wide and narrow windows."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.ui.browser.conftest import LIVE, OpenPage, Shown
from tests.ui.browser.visit import text_of

# What a view has to show, for those whose content is known here. Others need a heading and some text.
EXPECTED = {
    "overview": ("Now", "Graph", "Latest waves"),
    "waves": ("Time of each wave, by phase", "Newest first"),
    "components": ("Spouts", "Bolts"),
    "failures": ("Rounds that failed",),
    "configuration": ("Configuration",),
}


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_shown_readably_and_without_an_error(
    shown: Shown, open_page: OpenPage, scheme: str, width: int
) -> None:
    visit = open_page(shown.address, scheme=scheme, width=width)
    faults: dict[str, list[str]] = {}

    def look(name: str, *texts: str) -> None:
        for text in texts:
            assert text in text_of(visit), f"{name} does not show {text!r}"
        visit.screenshot(f"{shown.label}-{name}")
        if found := visit.faults():
            faults[name] = found

    names = visit.views()
    assert names.keys() >= EXPECTED.keys()
    for name, title in names.items():
        visit.open_view(name)
        expect(visit.page).to_have_title(f"{visit.page.locator('#name').inner_text()} · {title}")
        expect(visit.page.locator("main h2").first).to_be_visible()
        look(name, *EXPECTED.get(name, ()))
    visit.open_view("failures")
    if shown.tasks < 1000:  # with dead letters, a round that fails is run again without the message, for no reason told
        assert "is refused once" in text_of(visit)
    visit.open_view("overview")
    assert visit.page.locator("svg .node").count() == len(shown.components)
    visit.follow(f"#node-{shown.components[-1]}")
    look("component", shown.components[-1], "Takes", *(["Chained to find-fraud"] if shown.tasks == 40 else []))
    visit.open_view("waves")
    visit.follow("[id^=wave-]")
    look("wave", "Its tasks: least / median / most")
    assert not faults, "\n".join(f"{name}: {fault}" for name, found in faults.items() for fault in found)
    assert visit.troubles == []
    if shown.kind == LIVE:
        assert "canary" not in visit.page.content()


def test_the_keyboard_reaches_every_view_and_the_focus_is_seen(shown: Shown, open_page: OpenPage) -> None:
    visit = open_page(shown.address)
    names = visit.views()
    keyboard = visit.page.keyboard
    focused = "document.activeElement.id || document.activeElement.className"
    keyboard.press("Tab")
    assert visit.page.evaluate(focused) == "skip"
    for name in names:
        keyboard.press("Tab")
        assert visit.page.evaluate(focused) == f"nav-{name}"
        style = "(({ outlineStyle, outlineWidth }) => [outlineStyle, parseFloat(outlineWidth) >= 2])"
        assert visit.page.evaluate(f"{style}(getComputedStyle(document.activeElement))") == ["solid", True]
        keyboard.press("Enter")
        visit.wait_for_view(f"#/{name}")
        assert visit.page.evaluate(focused) == f"nav-{name}", "the focus stays where it was"
