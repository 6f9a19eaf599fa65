"""A progress by which a test does something while a migration runs."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Listening:
    """Calls `on_step` with each step's name, and `on_page` after each page."""

    on_step: Callable[[str], None] = lambda what: None
    on_page: Callable[[], None] = lambda: None

    def begin(self, what: str, total: int | None) -> None:
        self.on_step(what)

    def advance(self, entries: int) -> None:
        self.on_page()
