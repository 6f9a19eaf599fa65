"""The collector of a transactional topology: the first value of every tuple is the attempt at its batch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from operator import is_, itemgetter
from typing import Any

from anchorbolt.bolts.collector import FlushRows, OutputCollector
from anchorbolt.streams.attempt import TransactionAttempt
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.util.messages import counted, shortened

_FIRST = itemgetter(0)


class BatchOutputCollector(OutputCollector):
    """Emits the tuples of one batch. The framework anchors and acks: `anchors` and `ack` are accepted without effect.

    `fail` fails the batch.
    """

    def __init__(self, component: str, streams: Mapping[str, StreamDeclaration], flush: FlushRows) -> None:
        """Called by the engine, never by a job. `flush` is the argument of `OutputCollector`."""
        super().__init__(component, streams, flush, must_anchor=False)
        self.attempt: TransactionAttempt | None = None  # set by the engine for each batch

    def _check_width(self, values: list[Any], stream: str) -> None:
        attempt, fields = self.attempt, self._streams[stream].fields
        if set(map(len, values)) == {len(fields)} and all(map(is_, map(_FIRST, values), repeat(attempt))):
            return
        # Do not compare a value of another type: its `==` may raise, or return an array.
        wrong = next(
            (
                row
                for row in values
                if not row or (row[0] is not attempt and (not isinstance(row[0], tuple) or row[0] != attempt))
            ),
            None,
        )
        if wrong is not None:
            raise self._refusal(
                f"emitted {shortened(wrong, 120)} to stream {stream!r}. In a transactional topology the first value of "
                f"every tuple is the attempt at its batch, here {attempt!r}, for the field {fields[0]!r}. Emit "
                "(attempt, …) with the attempt that prepare, execute (as tup[0]) or the emitter got."
            )
        if set(map(len, values)) != {len(fields)}:
            row = next(row for row in values if len(row) != len(fields))
            raise self._refusal(
                f"emitted {shortened(row, 120)} to stream {stream!r}, which declares {counted(len(fields), 'field')}: "
                f"{', '.join(fields)}. The first field is for the attempt. Declare one field for each value, as in "
                'declare("tx", "word"), and emit one value for each field.'
            )

    def refuse_emitted(self, hook: str) -> None:
        """Raise `TopologyError` if the bolt has emitted in a hook that must not emit. Called by the engine."""
        if self.emitted or any(any(buffers.values()) for buffers in self._gate.buffers):
            raise self._refusal(f"emitted in {hook}, before its batch has begun. Emit in execute or finish_batch.")
