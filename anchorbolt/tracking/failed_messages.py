"""Counts the failures of messages of rich spouts, and makes messages that failed for good dead letters."""

import time
from collections.abc import Container, Mapping
from typing import Any

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.spouts.intake import Chunk
from anchorbolt.spouts.message_ids import id_key
from anchorbolt.tracking.settlements import FailedMessage, Settlement, SpoutTask

_MOST = 100_000  # limit of kept counts: they would grow forever if a source gives failed messages new ids

Key = tuple[str, int | None, Any]
"""A message: its spout's id, the task's index unless all tasks share message ids, and the id by `id_key`."""


class FailedMessages:
    """The messages that have failed and are not acked yet. Lost with the driver: its successor counts from zero."""

    def __init__(self, max_retries: int, shared: Container[str]) -> None:
        """Create it; `shared` are the spouts with tasks that all give a message the same id."""
        self._max_retries = max_retries
        self._shared = shared
        self._failures: dict[Key, tuple[int, FailedMessage]] = {}  # the number of failures, and the last failure

    @property
    def has_dead(self) -> bool:
        """Whether `is_dead` returns a failure for any message."""
        return any(self._is_too_often(failures) for failures, _ in self._failures.values())

    def is_dead(self, emitter: SpoutTask, msg_id: Any) -> FailedMessage | None:
        """Return the last failure of a message that has failed too often; None for any other message."""
        failures, last = self._failures.get(self._key(emitter, msg_id), (0, None))
        return last if self._is_too_often(failures) else None

    def bury(self, settlements: Mapping[SpoutTask, Settlement]) -> list[DeadLetter]:
        """Turn messages that fail for good in this wave into dead letters, which are acked instead of failed.

        The values of a message of an earlier wave are gone: it is left out when its source delivers it again.
        """
        letters = []
        decoded: Chunk | None = None
        columns: list[list[Any]] = []
        for emitter, settlement in settlements.items():
            still_failed = []
            for message in settlement.failed:
                tries = self._failures.get(self._key(emitter, message.msg_id), (0, None))[0]
                if not self._is_too_often(tries):  # otherwise the wave has left it out from its first round on
                    tries += 1
                if message.chunk is not None and (self._is_too_often(tries) or message.is_hopeless):
                    if message.chunk is not decoded:  # the failed messages of a chunk follow each other
                        decoded, columns = message.chunk, message.chunk.columns()
                    values = tuple(column[message.position] for column in columns)
                    letters.append(_letter(emitter[0], message, message.chunk.stream, values, tries))
                    settlement.acked.append(message.msg_id)
                else:
                    still_failed.append(message)
            settlement.failed = still_failed
        return letters

    def settle(self, settlements: Mapping[SpoutTask, Settlement]) -> None:
        """Count the failures of a committed wave, and forget the messages that it acked."""
        for emitter, settlement in settlements.items():
            for msg_id in settlement.acked if self._failures else ():
                self._failures.pop(self._key(emitter, msg_id), None)
            for message in settlement.failed:
                key = self._key(emitter, message.msg_id)
                failures, _ = self._failures.pop(key, (0, None))
                self._failures[key] = failures + 1, message._replace(chunk=None)
        while len(self._failures) > _MOST:
            del self._failures[next(iter(self._failures))]  # the oldest failure

    def _is_too_often(self, failures: int) -> bool:
        return failures > self._max_retries

    def _key(self, emitter: SpoutTask, msg_id: Any) -> Key:
        component, index = emitter
        return component, None if component in self._shared else index, id_key(msg_id)


def _letter(component: str, message: FailedMessage, stream: str, values: tuple[Any, ...], tries: int) -> DeadLetter:
    return DeadLetter(
        component,
        stream,
        values,
        message.msg_id,
        message.component,
        message.task_index,
        message.reason,
        tries,
        time.time(),
    )
