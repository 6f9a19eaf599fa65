"""Answers as JSON, made from one observation at most once a second, however many clients ask."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from anchorbolt.config.masking import Masking
from anchorbolt.observe.history.records import plain
from anchorbolt.ui.model.observation import Observation

_FRESH_S = 1.0
_SHARE = 20  # answers that took 100 ms to make are kept for 2 s: making them costs 5 % of one core at most
_MOST_ANSWERS = 500


class TooManyAnswers(Exception):
    """Clients asked for too many different answers within a second."""


class Answers:
    """The answers of one topology. Not thread-safe: for the server's event loop.

    The `secrets` are masked in every answer.
    """

    def __init__(
        self,
        observe: Callable[[], Observation],
        secrets: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observe = observe
        self._clock = clock
        self._masking = Masking(secrets)
        self._seen: Observation | None = None
        self._made_at, self._cost_s = float("-inf"), 0.0
        self._answers: dict[Hashable, bytes | None] = {}

    @property
    def seen(self) -> Observation:
        """The observation, at most about a second old."""
        now = self._clock()
        if self._seen is None or now - self._made_at >= max(_FRESH_S, _SHARE * self._cost_s):
            self._seen = self._observe()
            self._answers = {}
            self._made_at, self._cost_s = now, self._clock() - now
        return self._seen

    def renew(self) -> None:
        """Make the next answer from a new observation: something was just changed."""
        self._seen = None

    def get(self, key: Hashable, make: Callable[[Observation], Any]) -> bytes | None:
        """Return the result of `make` as JSON, or None if it is None. `key` names the answer.

        Raises:
            TooManyAnswers: 500 other answers were made from this observation.
        """
        seen = self.seen
        if key not in self._answers:
            if len(self._answers) >= _MOST_ANSWERS:
                raise TooManyAnswers
            began = self._clock()
            made = make(seen)
            self._answers[key] = None if made is None else self.encoded(made)
            self._cost_s += self._clock() - began
        return self._answers[key]

    def encoded(self, value: Any) -> bytes:
        """Return a value as JSON without secrets."""
        return json.dumps(self._masking.without_secrets(plain(value)), separators=(",", ":")).encode()
