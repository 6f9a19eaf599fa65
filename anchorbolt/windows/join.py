"""`JoinBolt`: Storm's join of several streams over a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple, TypeVar

from anchorbolt.bolts.base import Bolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import did_you_mean
from anchorbolt.windows.join_fields import JoinField, Selection, check_join, parsed_field
from anchorbolt.windows.task_window import BaseWindowedBolt
from anchorbolt.windows.task_windows import TupleWindow

J = TypeVar("J", bound="JoinBolt")

Row = tuple[Tuple | None, ...]
"""One tuple of each joined stream; None for a left join that found none."""


class _Joined(NamedTuple):
    stream: str
    field: JoinField
    prior: int  # the place of the stream that it is joined with
    is_left: bool


class JoinBolt(Selection, BaseWindowedBolt):
    """Joins the tuples of several streams that are in one window, by equal values of fields.

        JoinBolt("orders", "id").join("payments", "order_id", "orders").select("orders:id,amount")

    is `SELECT orders.id, amount FROM orders JOIN payments ON payments.order_id = orders.id`. Streams are named by the
    component that emits them, or with `by="stream"` by the stream's name. Group all of them by the fields of the join,
    or give the bolt one task. Set a window with `with_window` or `with_tumbling_window`. All streams but the first are
    held in memory while a window is joined.
    """

    def __init__(self, source: str, field: str, *, by: str = "component") -> None:
        """Begin with a first stream.

        Args:
            source: The first stream.
            field: Its field for the join; "field.inner" is a value in a dict.
            by: What names a stream: "component" or "stream".

        Raises:
            TopologyError: A name is not text, or `by` is neither of these.
        """
        if by not in ("component", "stream"):
            raise TopologyError(f"JoinBolt got by={by!r}. Pass 'component' or 'stream'.")
        self._by = by
        self._joined = [_Joined(source, parsed_field("JoinBolt", field, source), 0, False)]

    def join(self: J, source: str, field: str, prior: str) -> J:
        """Join another stream; only rows with a match remain. Returns the bolt.

        Args:
            source: The new stream.
            field: Its field.
            prior: A stream that is part of the join, whose field must be equal.

        Raises:
            TopologyError: `source` is part of the join already, or `prior` is not.
        """
        return self._add("join", source, field, prior, is_left=False)

    def left_join(self: J, source: str, field: str, prior: str) -> J:
        """Join another stream; rows without a match remain, with None for its fields. Otherwise like `join`."""
        return self._add("left_join", source, field, prior, is_left=True)

    def as_executed(self) -> Bolt:
        """Return the bolt that the engine calls. Raises `TopologyError` without selected fields or a window."""
        if not self._selected:
            raise TopologyError(
                f"the JoinBolt of {self._joined[0].stream!r} selects no fields. Call select, as in select('id,amount')."
            )
        return super().as_executed()

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Check that the streams and fields of the join exist."""
        fields = [*(joined.field for joined in self._joined), *self._selected]
        check_join(self._by, inputs, [joined.stream for joined in self._joined], fields)

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Keep the collector."""
        self.collector = collector

    def execute(self, window: TupleWindow) -> None:
        """Emit the joined rows of a window, in the order of the first stream's tuples."""
        for row in self._rows(window):
            self.collector.emit(self._row(row), anchors=window, stream=self._output)

    def _rows(self, window: TupleWindow) -> Iterable[Row]:
        first, *others = self._joined
        by_key: dict[str, dict[Any, list[Tuple]]] = {joined.stream: {} for joined in others}
        fields = {joined.stream: joined.field for joined in others}
        for tup in window.get() if others else ():
            stream = self._stream_of(tup)
            if stream in fields:
                key = fields[stream].value_of(tup)
                by_key[stream].setdefault(_hashable(key), []).append(tup)
        rows: Iterator[Row] = ((tup,) for tup in window.get() if self._stream_of(tup) == first.stream)
        for joined in others:
            rows = self._joined_rows(rows, joined, by_key[joined.stream])
        return rows

    def _joined_rows(self, rows: Iterator[Row], joined: _Joined, by_key: Mapping[Any, list[Tuple]]) -> Iterator[Row]:
        field = self._joined[joined.prior].field
        for row in rows:
            prior = row[joined.prior]
            key = None if prior is None else field.value_of(prior)
            matches = [] if key is None else by_key.get(_hashable(key), [])
            for match in matches:
                yield *row, match
            if joined.is_left and not matches:
                yield *row, None

    def _stream_of(self, tup: Tuple) -> str:
        return tup.source_component if self._by == "component" else tup.source_stream

    def _add(self: J, call: str, source: str, field: str, prior: str, *, is_left: bool) -> J:
        streams = [joined.stream for joined in self._joined]
        if source in streams:
            raise TopologyError(f"{call} got {source!r}, which is part of the join already. Join each stream once.")
        if prior not in streams:
            raise TopologyError(
                f"{call} got the prior stream {prior!r}, which is not part of the join.{did_you_mean(prior, streams)} "
                f"The join has: {', '.join(streams)}. Join it first."
            )
        self._joined.append(_Joined(source, parsed_field(call, field, source), streams.index(prior), is_left))
        return self


def _hashable(key: Any) -> Any:
    """Return a key for a dict. Values that are equal as values of Python join."""
    try:
        hash(key)
    except TypeError:
        if isinstance(key, Mapping):
            return Mapping, frozenset((name, _hashable(value)) for name, value in key.items())
        if isinstance(key, Set):
            return frozenset(key)
        if isinstance(key, list | tuple):
            return type(key), tuple(map(_hashable, key))
        raise
    return key
