"""A window of the browser: opens views as a person does, and notes all that goes wrong meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

SCREENSHOTS = Path(__file__).resolve().parents[3] / "build" / "screenshots"
PATIENCE_MS = 60_000
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}

# axe does not check texts and shapes of SVG: the contrast of each with the card behind it, as WCAG defines it.
SVG_CONTRASTS = """() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const card = light(getComputedStyle(document.documentElement).getPropertyValue("--card"));
  const found = [];
  for (const each of document.querySelectorAll("svg text, svg [class^='f-']:not([class*='load'])")) {
    const own = light(getComputedStyle(each).fill);
    const ratio = (Math.max(own, card) + 0.05) / (Math.min(own, card) + 0.05);
    if (ratio < (each.tagName === "text" ? 4.5 : 3)) found.push(`${ratio.toFixed(2)}: ${each.outerHTML.slice(0, 120)}`);
  }
  return found;
}"""

# Texts of a picture that lie on each other, that are wider than their box, and what sticks out of a card.
OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("main svg")) {
    const texts = [...svg.querySelectorAll("text")].map((each) => [each.textContent, each.getBoundingClientRect()]);
    texts.forEach(([text, a], index) => {
      for (const [other, b] of texts.slice(index + 1)) {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && high > 4) found.push(`${text} on ${other}`);
      }
    });
    for (const node of svg.querySelectorAll(".node")) {
      const box = node.querySelector(".box").getBoundingClientRect();
      for (const text of node.querySelectorAll("text")) {
        const at = text.getBoundingClientRect();
        if (at.left < box.left || at.right > box.right) found.push(`${text.textContent} is wider than its box`);
      }
    }
  }
  for (const card of document.querySelectorAll(".card, .tile")) {
    const right = card.getBoundingClientRect().right;
    for (const each of card.querySelectorAll("*")) {
      const scrolled = each.closest(".scroll") && !each.matches(".scroll");
      const out = each.getBoundingClientRect().right - right;
      if (!scrolled && out > 0.5) found.push(`${out} pixels out of its card: ${each.outerHTML.slice(0, 120)}`);
    }
  }
  return found;
}"""


class Visit:
    """One page in one window. `troubles` has what no page may cause."""

    def __init__(self, browser: Browser, address: str, *, scheme: str, width: int) -> None:
        self.scheme, self.width = scheme, width
        self.troubles: list[str] = []
        self._context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 900}
        )
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.troubles.append(f"exception: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", lambda each: each.ok or self.troubles.append(f"{each.status}: {each.url}"))
        self.page.goto(address)

    def views(self) -> dict[str, str]:
        """Return the titles of all views by their names, from the page's own navigation."""
        links = self.page.locator("#nav a")
        expect(links.first).to_be_visible()
        return {str(each.get_attribute("id")).removeprefix("nav-"): each.inner_text() for each in links.all()}

    def open_view(self, name: str) -> None:
        self.page.locator(f"#nav-{name}").click()
        self.wait_for_view(f"#/{name}")
        expect(self.page.locator(f"#nav-{name}")).to_have_attribute("aria-current", "page")

    def follow(self, link: str) -> None:
        """Click a link in the view, by its selector, and wait for what it opens."""
        before = self.page.url
        self.hold()  # a redrawn link would be lost between finding and clicking it
        target = self.page.locator(link).first
        address = str(target.get_attribute("href"))
        target.click()
        assert self.page.url != before
        self.wait_for_view(address)

    def wait_for_view(self, address: str) -> None:
        """Wait until the view at an address, such as `#/waves`, is drawn, whatever its parameters."""
        drawn = re.compile(rf"{re.escape(address)}(\?.*)?")
        expect(self.page.locator("#view")).to_have_attribute("data-shown", drawn, timeout=PATIENCE_MS)

    def hold(self) -> None:
        """Keep the page from redrawing what is below its head, as a person who selects text does."""
        self.page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")

    def close(self) -> None:
        self._context.close()

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}-{self.scheme}-{self.width}.png", full_page=True)

    def faults(self) -> list[str]:
        """Return what is hard to read or to reach in the view that is open."""
        self.hold()
        found = [f"contrast {each}" for each in self.page.evaluate(SVG_CONTRASTS)]
        found += self.page.evaluate(OVERLAPS)
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wide > 0:
            found.append(f"the page is {wide} pixels wider than the window")
        result = Axe().run(self.page, options=RULES)
        found += [result.generate_report(each["id"]) for each in result.response["violations"]]
        return found

    def _failed(self, request: Request) -> None:
        is_left = request.resource_type != "fetch" and request.failure == "net::ERR_ABORTED"
        if not is_left:  # as the icon of a form that was sent before the icon had come
            self.troubles.append(f"failed: {request.url} {request.failure}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"{message.type}: {message.text}")


def text_of(visit: Visit) -> str:
    """Return the text of the view that is open."""
    return visit.page.locator("main").inner_text()
