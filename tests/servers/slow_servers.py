"""Calls of real servers on a machine that has much else to do: one that was slow for a moment is asked again.

A test that gives a server little time, because it is to be found away, needs them for all that it is to answer.
"""

import time
from collections.abc import Callable
from typing import TypeVar

import pytest

from anchorbolt.errors import StateUnavailable

_T = TypeVar("_T")
_SECONDS = 60.0
_SLOW = "did not answer within"


def until_available(call: Callable[[], _T], seconds: float = _SECONDS) -> _T:
    """Repeat a call, as the engine does, until the store can do it; nothing but being unavailable is forgiven."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return call()
        except StateUnavailable:
            if time.monotonic() > deadline:
                raise


def refusal_of(call: Callable[[], object], seconds: float = _SECONDS) -> StateUnavailable:
    """Return why a server cannot serve a call now. That it did not answer in time is no reason: it is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        with pytest.raises(StateUnavailable) as caught:
            call()
        if _SLOW not in str(caught.value) or time.monotonic() > deadline:
            return caught.value
