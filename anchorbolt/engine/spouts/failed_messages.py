"""Counts how often messages of rich spouts have failed, and makes those that failed for good dead letters."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from anchorbolt.acker.in_flight import Emitter, FailedMessage, Settlement
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter

Key = tuple[str, Any]
"""A message: its spout's id, and its message id."""


class FailedMessages:
    """The messages that have failed, and are not acked yet. Lost with the driver: its successor counts anew."""

    def __init__(self, max_retries: int) -> None:
        self._max_retries = max_retries
        self._failures: dict[Key, tuple[int, FailedMessage]] = {}  # how often, and the last time

    def is_dead(self, component: str, msg_id: Any) -> FailedMessage | None:
        """Return how a message failed that has failed too often; None for others."""
        if not self._failures:
            return None
        failures, last = self._failures.get((component, msg_id), (0, None))
        return last if failures > self._max_retries else None

    def bury(self, settlements: Mapping[Emitter, Settlement]) -> list[DeadLetter]:
        """Make those that fail for good in this wave dead letters, which are acked instead of failed.

        A message of an earlier wave is not at hand: it is left out when its source delivers it again.
        """
        letters = []
        for (component, _), settlement in settlements.items():
            still_failed = []
            for message in settlement.failed:
                tries = self._failures.get((component, message.msg_id), (0, None))[0] + 1
                if message.chunk is not None and (tries > self._max_retries or message.is_hopeless):
                    letters.append(_letter(component, message, tries))
                    settlement.acked.append(message.msg_id)
                else:
                    still_failed.append(message)
            settlement.failed = still_failed
        return letters

    def settle(self, settlements: Mapping[Emitter, Settlement]) -> None:
        """Count the failures of a wave that has committed, and forget what it acked."""
        for (component, _), settlement in settlements.items():
            self._forget(component, settlement.acked)
            for message in settlement.failed:
                failures, _ = self._failures.get((component, message.msg_id), (0, None))
                kept = message._replace(chunk=None)
                self._failures[component, message.msg_id] = failures + 1, kept

    def _forget(self, component: str, acked: Iterable[Any]) -> None:
        if self._failures:
            for msg_id in acked:
                self._failures.pop((component, msg_id), None)


def _letter(component: str, message: FailedMessage, tries: int) -> DeadLetter:
    assert message.chunk is not None
    values = tuple(column[message.position] for column in message.chunk.columns())
    return DeadLetter(
        component,
        message.chunk.stream,
        values,
        message.msg_id,
        message.component,
        message.task_index,
        message.reason,
        tries,
        time.time(),
    )
