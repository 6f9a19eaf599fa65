"""Looks up keys in the state of a running topology, on threads of its own: the event loop never waits for the store.

At most two lookups run at a time, and together they take at most 5 % of the time in the long run: a lookup asks all
tasks of a bolt, so clients must not be able to keep the store and the driver busy with it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from anchorbolt.engine.driver.committed_state import look_up
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import AnchorboltError, ConfigError, StateUnavailable, UnsupportedValue
from anchorbolt.ui.answers import Found, LookedUp
from anchorbolt.ui.model.state import TEXT_CHARACTERS, found_value
from anchorbolt.util.values import as_json, as_text, key_from_text

MOST_KEY_CHARACTERS = 2000
_MOST_AT_ONCE = 2
_MOST_FOUND = 20
_DEADLINE_S = 4.0  # less than the page waits for an answer
_SHARE = 0.05
_MOST_SAVED_S = 3.0  # of the share, for several lookups in a row


class LookupRefused(Exception):
    """A lookup is refused with this HTTP status."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Budget:
    """The time for lookups: a share of all time, saved up to a limit. Not thread-safe."""

    def __init__(self, now: float) -> None:
        self._left_s, self._at = _MOST_SAVED_S, now

    def has_left(self, now: float) -> bool:
        """Return whether another lookup may start."""
        self._left_s, self._at = min(_MOST_SAVED_S, self._left_s + _SHARE * (now - self._at)), now
        return self._left_s > 0

    def spend(self, seconds: float) -> None:
        """Subtract the time of a lookup."""
        self._left_s -= seconds


class Lookups:
    """The lookups of one run. Not thread-safe: for the server's event loop."""

    def __init__(self, plan: ExecutionPlan, clock: Callable[[], float] = time.monotonic) -> None:
        self._plan = plan
        self._clock = clock
        self._budget = Budget(clock())
        self._running = 0

    async def find(self, component: str, text: str) -> LookedUp:
        """Return the answer of `/api/v1/topology/{id}/state/{component}?key=…`.

        It has at most 20 tasks that have the key, and asks no further task after 2 seconds.

        Raises:
            LookupRefused: The key or the component cannot be looked up, or not now.
        """
        if len(text) > MOST_KEY_CHARACTERS:
            raise LookupRefused(400, f"the key is longer than {MOST_KEY_CHARACTERS} characters")
        if self._running >= _MOST_AT_ONCE or not self._budget.has_left(self._clock()):
            raise LookupRefused(503, "other keys are being looked up, or many were: try again")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[LookedUp] = loop.create_future()
        began = self._clock()

        def end(made: LookedUp | None, error: Exception | None) -> None:
            self._running -= 1
            self._budget.spend(self._clock() - began)
            if answer.done():  # too late
                return
            if error is not None:
                answer.set_exception(error)
            elif made is not None:
                answer.set_result(made)

        def work() -> None:
            made: LookedUp | None = None
            failure: Exception | None = None
            try:
                made = self._found(component, text, began)
            except Exception as error:
                failure = error
            except BaseException as error:  # of the user's codec; the thread must free its slot
                failure = LookupRefused(409, f"the key cannot be looked up: {type(error).__name__}")
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end, made, failure)

        self._running += 1
        threading.Thread(target=work, name="anchorbolt-ui-lookup", daemon=True).start()
        try:
            return await asyncio.wait_for(answer, _DEADLINE_S)
        except asyncio.TimeoutError:
            raise LookupRefused(504, f"the store did not answer within {_DEADLINE_S:.0f} s") from None

    def _found(self, component: str, text: str, began: float) -> LookedUp:
        """Look up, on a thread."""
        key = key_from_text(text)
        asked, found = 0, list[Found]()
        try:
            for stored in look_up(self._plan, component, key, int(time.time() * 1000)):
                asked += 1
                if stored.data is not None:
                    found.append(found_value(stored))
                # The rest of the time is for formatting values.
                if len(found) == _MOST_FOUND or self._clock() - began > _DEADLINE_S / 2:
                    break
        except AnchorboltError as error:
            raise LookupRefused(_status(error), error.message.rstrip(".")) from error
        return LookedUp(
            component=component,
            key=as_json(key),
            key_text=as_text(key, TEXT_CHARACTERS),
            tasks_total=len(self._plan.wiring.tasks[component]),
            tasks_asked=asked,
            found=found,
        )


def _status(error: AnchorboltError) -> int:
    if isinstance(error, UnsupportedValue):
        return 400
    if isinstance(error, StateUnavailable):
        return 503
    return 404 if isinstance(error, ConfigError) else 409
