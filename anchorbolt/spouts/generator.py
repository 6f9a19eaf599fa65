"""A spout that makes up its messages: for tests, demonstrations and benchmarks."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import BaseRichSpout
from anchorbolt.spouts.collector import SpoutOutputCollector
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.util.messages import shortened

_NUMBER_BITS, _RUN_BITS = 40, 22  # bits of a message id: together less than the 63 bits that encode fastest


class GeneratorSpout(BaseRichSpout):
    """Emits the messages 0, 1, 2 … on the default stream, each with values that a function computes from its number.

    The tasks share the numbers: task i of n emits i, i + n, i + 2n …. A failed message is emitted again. Each run
    starts at number 0 with new message ids, so a state that outlives the run counts the messages again.
    """

    stable_message_ids = True

    def __init__(
        self,
        fields: Sequence[str],
        generate: Callable[[int], Sequence[Any]],
        *,
        count: int | None = None,
        batch: int = 100,
        tracked: bool = True,
    ) -> None:
        """Create a spout.

        Args:
            fields: Field names of the tuples.
            generate: Returns the values of a message, one per field; its argument is the message's number. Must return
                equal values each time: it is called again for a failed message. A tuple is not copied, so it is the
                fastest result.
            count: Number of messages of all tasks together; None means no end.
            batch: Maximum number of tuples that one call of `next_tuple` emits.
            tracked: Whether messages have ids. Messages without ids are neither acked nor failed.

        Raises:
            TopologyError: An argument is invalid.
        """
        if isinstance(fields, str) or not fields:
            raise TopologyError(f"GeneratorSpout: fields is {shortened(fields)}. Pass a list of names.")
        if not callable(generate):
            raise TopologyError(
                f"GeneratorSpout: generate is {shortened(generate)}, not a function. Pass a function of a message's "
                "number, such as lambda number: (f'word-{number}',)."
            )
        if count is not None and (type(count) is not int or count < 0):
            raise TopologyError(
                f"GeneratorSpout: count is {shortened(count)}. Pass a whole number, at least 0, or None."
            )
        if type(batch) is not int or batch < 1:
            raise TopologyError(f"GeneratorSpout: batch is {shortened(batch)}. Pass a whole number, at least 1.")
        self.fields = tuple(fields)
        self.generate = generate
        self.count = count
        self.batch = batch
        self.tracked = tracked

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the default stream with the given fields."""
        declarer.declare(*self.fields)

    def open(self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector) -> None:
        """Start at the task's first number."""
        self._emit = collector.emit
        self._tasks = len(context.get_component_tasks(context.this_component_id))
        self._next = context.this_task_index
        self._failed: list[int] = []
        self._pending = 0
        self._first_id = random.getrandbits(_RUN_BITS) << _NUMBER_BITS  # of number 0
        self._most: int | None = conf.get("topology.max.spout.pending")

    def next_tuple(self) -> None:
        """Emit at most `batch` tuples, failed messages first; fewer if `topology.max.spout.pending` requires it."""
        room = self.batch
        if self._most is not None and self.tracked:
            room = min(room, self._most - self._pending)
        numbers: Sequence[int]
        if self._failed:
            numbers, self._failed = self._failed[:room], self._failed[room:]
        else:
            stop = self._next + room * self._tasks
            numbers = range(self._next, stop if self.count is None else min(stop, self.count), self._tasks)
            self._next += len(numbers) * self._tasks
        emit, generate = self._emit, self.generate
        if self.tracked:
            self._pending += len(numbers)
            first_id = self._first_id
            for number in numbers:
                emit(generate(number), first_id + number)
        else:
            for number in numbers:
                emit(generate(number))

    def ack(self, msg_id: int) -> None:
        """Count the message as processed."""
        self._pending -= 1

    def fail(self, msg_id: int) -> None:
        """Emit the message again in a later `next_tuple`."""
        self._pending -= 1
        self._failed.append(msg_id - self._first_id)
