"""Recognises messages that a source delivers again under the same id. Thread-safe.

If such a message is in flight, it is dropped: its first delivery is still being processed. If a decision has acked it,
it is dropped too, and the spout acks it once more, because the source missed the ack. The decision record keeps the ids
of acked messages until the spout has passed the acks to its source. A driver leaves such messages to its successor only
if it dies in between.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import compress, groupby, repeat
from operator import eq
from typing import Any

from anchorbolt.spouts.message_ids import AckedMessages, id_key, id_keys, id_of
from anchorbolt.tracking.settlements import FailedMessage, Settlement

DecidedPart = tuple[AckedMessages, Sequence[Any]]
"""Messages that a decision acks: in the record's form, and their ids."""


class Known(Enum):
    """The state of a message when a spout emits it."""

    NEW = "new"
    IN_FLIGHT = "in flight"
    MOVED = "moved"  # in flight, and another task has emitted it
    ACKED = "acked"  # by a decision


@dataclass(eq=False)
class _Unconfirmed:
    """Acked messages that the source has not confirmed."""

    messages: AckedMessages
    waiting: int  # how many of them


class Redelivery:
    """The messages of one spout with stable message ids."""

    def __init__(self, component: str, in_flight: Iterable[Any] = (), acked: Sequence[AckedMessages] = ()) -> None:
        """Start with the messages of an earlier driver: those of open trees, and those that the record acks."""
        self._component = component
        self._lock = threading.Lock()
        # The task's index by message in flight. All messages here are in the form of `id_key`.
        self._emitter: dict[Any, int | None] = dict.fromkeys(map(id_key, in_flight))
        self._pending: defaultdict[int, int] = defaultdict(int)  # by task
        self._recalled: dict[int, list[Any]] = {}  # by task: messages that another task has received since
        self._lost: list[FailedMessage] = []  # since the last `settle`
        self._acked: dict[Any, _Unconfirmed] = {}
        self._unconfirmed: list[_Unconfirmed] = []
        for messages in acked:
            entry = _Unconfirmed(messages, 0)
            self._unconfirmed.append(entry)
            self._acked.update(dict.fromkeys(map(id_key, messages.msg_ids()), entry))
        # If several decisions ack an id, the earlier acks were confirmed: otherwise the message would have been
        # dropped.
        for entry in self._acked.values():
            entry.waiting += 1
        self._unconfirmed = [entry for entry in self._unconfirmed if entry.waiting]

    def emit(self, msg_id: Any, task_index: int) -> Known:
        """Note that a task emits a message; only a new message must be processed."""
        key = msg_id if type(msg_id) is int else id_key(msg_id)  # a call of `id_key` would cost as much as all the rest
        with self._lock:
            if key in self._acked:
                return Known.ACKED
            if key not in self._emitter:
                self._emitter[key] = task_index
                self._pending[task_index] += 1
                return Known.NEW
            before = self._emitter[key]
            if before != task_index:
                self._emitter[key] = task_index  # the last task to receive it acks or fails it
                self._pending[task_index] += 1
                if key in self._recalled.get(task_index, ()):  # it comes back
                    self._recalled[task_index].remove(key)
                if before is not None:
                    self._pending[before] -= 1
                    self._recalled.setdefault(before, []).append(key)
                return Known.MOVED
            return Known.IN_FLIGHT

    def emit_all(self, msg_ids: Sequence[Any], task_index: int) -> dict[int, Known]:
        """Note that a task emits messages, None for an untracked tuple; return the positions of those to drop."""
        keys = id_keys([msg_id for msg_id in msg_ids if msg_id is not None])
        new = dict.fromkeys(keys, task_index)
        with self._lock:  # mostly no message is known
            if len(new) == len(keys) and new.keys().isdisjoint(self._emitter) and new.keys().isdisjoint(self._acked):
                self._emitter.update(new)
                return {}
        found: dict[int, Known] = {}
        for position, msg_id in enumerate(msg_ids):
            if msg_id is not None:
                known = self.emit(msg_id, task_index)
                if known is not Known.NEW:
                    found[position] = known
        return found

    def lose(self, task_index: int, msg_ids: Iterable[Any]) -> None:
        """Note that a task was lost, with its tuples of these messages. No task gets the acks and fails of its others.

        If another task has received a lost message since, the next `settle` fails it there.
        """
        with self._lock:
            self._lost += (FailedMessage(msg_id, "", -1, "") for msg_id in msg_ids)
            self._emitter.update({key: None for key, task in self._emitter.items() if task == task_index})
            self._recalled.pop(task_index, None)

    def take_recalled(self, task_index: int) -> list[Any]:
        """Return a task's messages that will get no ack or fail there: another task has received them since."""
        if not self._recalled:
            return []
        with self._lock:
            return [*map(id_of, self._recalled.pop(task_index, []))]

    @property
    def acked(self) -> list[Any]:
        """The acked messages that the source has not confirmed."""
        with self._lock:
            return [*map(id_of, self._acked)]

    def pending(self, task_index: int) -> int:
        """Return how many messages of a task are neither acked nor failed. Only for tasks that the driver has."""
        return self._pending[task_index]

    def unconfirmed(self) -> list[AckedMessages]:
        """Return the unconfirmed acked messages, which each record must keep."""
        with self._lock:
            return [entry.messages for entry in self._unconfirmed]

    def settle(self, decided: Iterable[DecidedPart], failed: Sequence[FailedMessage]) -> Mapping[int, Settlement]:
        """Settle messages after the commit; return, by task index, the acks and fails to pass to the source.

        `decided` are the messages that the decision acks, from `AckedMessages.parts_of`.
        """
        by_task: defaultdict[int, Settlement] = defaultdict(Settlement)
        with self._lock:
            for messages, acked in decided:
                entry = _Unconfirmed(messages, len(acked))
                self._unconfirmed.append(entry)
                keys = id_keys(acked)
                self._acked.update(dict.fromkeys(keys, entry))
                tasks = [*map(self._emitter.pop, keys, repeat(None))]
                for index in {task for task in tasks if task is not None}:
                    by_task[index].acked += compress(acked, map(partial(eq, index), tasks))
            for message in (*failed, *self._lost):
                task = self._emitter.pop(id_key(message.msg_id), None)
                if task is not None:
                    by_task[task].failed.append(message)
            self._lost = []
        return by_task

    def finish(self, task_index: int, count: int) -> None:
        """Note that a task has passed this many acks and fails of `settle` to its source."""
        with self._lock:
            self._pending[task_index] -= count

    def confirm(self, acked: Sequence[Any]) -> None:
        """Note that the source knows of the acks of these messages."""
        with self._lock:
            entries = map(self._acked.pop, id_keys(acked), repeat(None))
            for entry, confirmed in groupby(entries):
                if entry is not None:
                    entry.waiting -= sum(1 for _ in confirmed)
            self._unconfirmed = [entry for entry in self._unconfirmed if entry.waiting > 0]
