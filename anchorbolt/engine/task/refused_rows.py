"""What a spout's task does with rows that cannot be sent: it fails their trees, or names them. Only after a failure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.engine.task.emitter import Emitter
from anchorbolt.engine.task.value_checks import UndecodedText
from anchorbolt.errors import AnchorboltError, TopologyError, UnsupportedValue
from anchorbolt.serialization import pack
from anchorbolt.streams.tuple import TupleHandle
from anchorbolt.util.messages import described, printable, shortened

if TYPE_CHECKING:
    from anchorbolt.tracking.task_tracker import TaskTracker

_REASON_CHARACTERS = 4_000


def sendable_rows(
    emitter: Emitter, stream: str, rows: Sequence[Any], items: Sequence[Any] | None, failing: TaskTracker | None
) -> tuple[list[Any], list[Any] | None]:
    """Return the rows that can be sent, and their roots; fail the trees of the others, in `failing`.

    Raises `UnsupportedValue` or `TopologyError` for a row that belongs to no tree, or without `failing`.
    """
    kept: list[Any] = []
    kept_items: list[Any] | None = None if items is None else []
    for position, row in enumerate(rows):
        item = () if items is None else items[position]
        try:
            emitter.check(stream, row)
        except Exception as error:
            if item in emitter.excluded:
                continue
            problem = error.message if isinstance(error, AnchorboltError) else described(error)
            if failing is None or item == ():
                kind = TopologyError if isinstance(error, TopologyError) else UnsupportedValue
                raise kind(f"{problem} It is in the tuple {shortened(row, 200)}.") from error
            failing.fail(TupleHandle(0, 0, item), printable(problem)[:_REASON_CHARACTERS])
            continue
        kept.append(row)
        if kept_items is not None:
            kept_items.append(item)
    return kept, kept_items


def packed_row(values: Iterable[Any]) -> bytes:
    """Encode a row for a dead letter; in place of a value that cannot be encoded, its bytes or its shortened text."""
    return pack([_keepable(value) for value in values])


def _keepable(value: Any) -> Any:
    if isinstance(value, UndecodedText):
        return value.data
    try:
        pack(value)
    except UnsupportedValue:
        return printable(shortened(value, 1_000))
    return value
