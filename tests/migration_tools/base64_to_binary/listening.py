"""Progresses by which a test does something while a migration runs."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Listening:
    """Calls `on_step` with each step's name, and `on_page` after each page."""

    on_step: Callable[[str], object] = lambda what: None
    on_page: Callable[[], object] = lambda: None

    def begin(self, what: str, total: int | None) -> None:
        self.on_step(what)

    def advance(self, entries: int) -> None:
        self.on_page()


@dataclass
class Once:
    """Does something once: after so many pages, or when a step of this name begins."""

    action: Callable[[], object]
    page: int = 0
    step: str = ""
    was_done: bool = False

    def begin(self, what: str, total: int | None) -> None:
        if what == self.step:
            self._do()

    def advance(self, entries: int) -> None:
        self.page -= 1
        if self.page == 0:
            self._do()

    def _do(self) -> None:
        if not self.was_done:
            self.was_done = True
            self.action()
