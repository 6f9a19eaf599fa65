"""Fields of joins as their authors name them, and the check that they exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from anchorbolt.errors import TopologyError
from anchorbolt.streams.declaration import DEFAULT_STREAM, OutputFieldsDeclarer, check_name
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.messages import did_you_mean, shortened


class JoinField(NamedTuple):
    """A field as its author names it: "field" or "stream:field"; "field.inner" is a value in a dict."""

    stream: str | None
    path: tuple[str, ...]

    def value_of(self, tup: Tuple) -> Any:
        """Return the value; None if the tuple has no such field, or a dict no such key."""
        value = tup.get(self.path[0])
        for name in self.path[1:]:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def parsed_field(call: str, name: object, stream: str | None = None) -> JoinField:
    """Return the field that a name names; with `stream`, a field of that stream."""
    if isinstance(name, str):
        prefix, colon, rest = name.strip().rpartition(":")
        path = tuple(part.strip() for part in rest.split("."))
        if all(path) and not (colon and stream is not None) and (prefix or not colon):
            return JoinField(prefix.strip() or stream, path)
    example = "'field' or 'field.inner'" + ("" if stream is not None else " or 'stream:field'")
    raise TopologyError(f"{call} got the field {shortened(name)}. Pass a name, as in {example}.")


S = TypeVar("S", bound="Selection")


class Selection:
    """The part of a join that chooses the fields and the stream of its output."""

    _names: Sequence[str] = ()
    _selected: Sequence[JoinField] = ()
    _output = DEFAULT_STREAM

    def select(self: S, fields: str) -> S:
        """Set the fields of the output, as in "id,payments:amount,address.city". Returns the bolt.

        The output's fields have these names. A field without a stream is that of the first joined stream whose tuple
        has a value of it.

        Raises:
            TopologyError: `fields` is not text with names between commas.
        """
        if not isinstance(fields, str):
            raise TopologyError(f"select got {shortened(fields)}. Pass names in one text, as in 'id,payments:amount'.")
        self._names = [name.strip() for name in fields.split(",")]
        self._selected = [parsed_field("select", name) for name in self._names]
        return self

    def with_output_stream(self: S, stream: str) -> S:
        """Emit to a stream of this name instead of the default one. Returns the bolt."""
        self._output = check_name("stream", stream)
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the selected fields."""
        if self._output == DEFAULT_STREAM:
            declarer.declare(*self._names)
        else:
            declarer.declare_stream(self._output, *self._names)

    def _row(self, tuples: Iterable[Tuple | None]) -> tuple[Any, ...]:
        """Return the output of one tuple of each joined stream."""
        named = [(self._stream_of(tup), tup) for tup in tuples if tup is not None]
        return tuple(_value(field, named) for field in self._selected)

    def _stream_of(self, tup: Tuple) -> str:
        """Return what names the stream of a tuple."""
        return tup.source_component


def _value(field: JoinField, named: Iterable[tuple[str, Tuple]]) -> Any:
    for stream, tup in named:
        if field.stream in (None, stream):
            value = field.value_of(tup)
            if value is not None:
                return value
    return None


def check_join(
    by: str, inputs: Mapping[tuple[str, str], tuple[str, ...]], streams: Sequence[str], used: Sequence[JoinField]
) -> None:
    """Check that the streams of a join are its inputs, and that its fields exist.

    Args:
        by: What names a stream: "component" or "stream".
        inputs: The fields of each input stream.
        streams: The streams of the join.
        used: The fields of the join and of its output.

    Raises:
        TopologyError: A stream or a field does not exist, or an input is not part of the join.
    """
    fields: dict[str, dict[str, None]] = {}
    for (component, stream), names in inputs.items():
        fields.setdefault(component if by == "component" else stream, {}).update(dict.fromkeys(names))
    for stream in streams:
        if stream not in fields:
            raise TopologyError(
                f"joins {by} {stream!r}, which it does not take.{did_you_mean(stream, fields)} "
                f"It takes: {', '.join(fields)}. Add a grouping for it, or correct the name."
            )
    if unused := [stream for stream in fields if stream not in streams]:
        raise TopologyError(
            f"takes {by} {unused[0]!r}, which is not part of its join. Join it, or remove its grouping."
        )
    for field in used:
        if field.stream is not None and field.stream not in fields:
            raise TopologyError(
                f"selects from {by} {field.stream!r}, which is not part of its join."
                f"{did_you_mean(field.stream, streams)} The join has: {', '.join(streams)}."
            )
        known = {name for stream in streams for name in fields[stream] if field.stream in (None, stream)}
        if field.path[0] not in known:
            of = "" if field.stream is None else f" of {by} {field.stream!r}"
            raise TopologyError(
                f"uses the field {field.path[0]!r}{of}, which is not declared.{did_you_mean(field.path[0], known)} "
                f"Declared: {', '.join(sorted(known)) or 'none'}."
            )
