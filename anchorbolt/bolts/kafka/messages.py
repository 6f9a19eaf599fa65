"""Turns tuples into messages of Kafka: key, value, headers, partition and topic, column by column.

This happens in tasks, before the decision: a value that cannot be a message must fail the wave, not stop a decided one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from anchorbolt.util.messages import shortened

Format = Literal["str", "bytes", "json"]
Serializer = Callable[[Any], "bytes | str | None"]
Headers = list[tuple[str, "bytes | None"]]

TOPIC_NAMES = "1 to 249 of the characters A-Z a-z 0-9 . _ -, and neither '.' nor '..'"
COLUMNS = ("topic", "partition", "key", "value", "headers")

_OVERHEAD = 100  # maximum bytes of a message besides key, value and headers
_HEADER_OVERHEAD = 10
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class Message(NamedTuple):
    """One message, in the form that `outbox_columns` writes."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers | None


@dataclass(frozen=True)
class MessageFormat:
    """Maps the fields of a tuple to the parts of a message."""

    topic: str | None  # of all messages; None if `topic_field` gives it
    topic_field: str | None
    value: str | tuple[str, ...]
    key: str | tuple[str, ...] | None
    headers: str | None
    partition: str | None
    value_serializer: Serializer
    key_serializer: Serializer
    max_bytes: int  # of a message

    def columns(self, fields: Sequence[str], columns: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
        """Convert the columns of tuples to the columns `COLUMNS`.

        Raises `ValueError` if a field is missing, a value cannot be part of a message, or a message is too large.
        """
        by_name = dict(zip(fields, columns, strict=True))
        size = len(columns[0]) if columns else 0
        nothing = [None] * size

        def column(name: str) -> Sequence[Any]:
            if name not in by_name:
                raise ValueError(f"there is no field {name!r} among {', '.join(fields)}: correct the sink's arguments")
            return by_name[name]

        def serialized(part: str, name: str | tuple[str, ...] | None, serialize: Serializer) -> Sequence[bytes | None]:
            if name is None:
                return nothing
            given: Iterable[Any]
            if isinstance(name, str):
                given = column(name)
            else:
                rows = zip(*map(column, name), strict=True)
                given = (dict(zip(name, row, strict=True)) for row in rows)
            return [_serialized(part, value, serialize) for value in given]

        topics = [self.topic] * size
        if self.topic_field is not None:
            topics = [_checked_topic(topic) for topic in column(self.topic_field)]
        partitions = nothing if self.partition is None else [*map(_checked_partition, column(self.partition))]
        keys = serialized("key", self.key, self.key_serializer)
        values = serialized("value", self.value, self.value_serializer)
        headers = nothing if self.headers is None else [*map(_checked_headers, column(self.headers))]
        for key, value, each in zip(keys, values, headers, strict=True):
            self._check_size(key, value, each)
        return topics, partitions, keys, values, headers

    def _check_size(self, key: bytes | None, value: bytes | None, headers: Headers | None) -> None:
        size = _OVERHEAD + len(key or b"") + len(value or b"")
        for name, content in headers or ():
            size += len(name.encode()) + len(content or b"") + _HEADER_OVERHEAD
        if size > self.max_bytes:
            raise ValueError(
                f"a message of about {size:,} bytes with the key {shortened(key)} is larger than message.max.bytes "
                f"({self.max_bytes:,}). Raise it in the sink's settings, and max.message.bytes of the topic"
            )


def is_topic(name: object) -> bool:
    """Return whether Kafka accepts this as the name of a topic."""
    return isinstance(name, str) and _TOPIC.fullmatch(name) is not None and name not in (".", "..")


def serializer_of(given: Format | Serializer) -> Serializer:
    """Return the function for an argument. Raises `ValueError` if it is neither a known name nor a function."""
    if callable(given):
        return given
    if given not in _FORMATS:
        raise ValueError(f"Pass a function, or one of {', '.join(map(repr, _FORMATS))}.")
    return _FORMATS[given]


def outbox_schema() -> Any:
    """Return the schema of the files in the outbox: the same for all options, so that options may change."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = (pa.string(), pa.int32(), pa.binary(), pa.binary(), pa.list_(header))
    return pa.schema(list(zip(COLUMNS, types, strict=True)))


def messages_in(columns: Sequence[Sequence[Any]]) -> Iterable[Message]:
    """Return the messages that were written as these columns."""
    for topic, partition, key, value, headers in zip(*columns, strict=True):
        pairs = None if headers is None else [(each["key"], each["value"]) for each in headers]
        yield Message(topic, partition, key, value, pairs)


def _as_text(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("it is bytes: pass the serializer 'bytes'")
    return str(value).encode()


def _as_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"it is a {type(value).__name__}: pass the serializer 'str' or 'json', or a function")
    return bytes(value)


def _as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


_FORMATS: Mapping[str, Serializer] = {"str": _as_text, "bytes": _as_bytes, "json": _as_json}


def _serialized(part: str, value: Any, serialize: Serializer) -> bytes | None:
    if value is None:  # no key, or a value that makes compaction remove the key
        return None
    try:
        data = serialize(value)
    except Exception as error:
        raise ValueError(f"the {part} {shortened(value)} cannot be serialized: {error}") from error
    if isinstance(data, str):
        return data.encode()
    if data is not None and type(data) is not bytes:
        raise ValueError(f"the serializer of the {part} returned a {type(data).__name__} for {shortened(value)}")
    return data


def _checked_topic(topic: Any) -> str:
    if not is_topic(topic):
        raise ValueError(f"{shortened(topic)} is not the name of a topic: it must be {TOPIC_NAMES}")
    return str(topic)


def _checked_partition(partition: Any) -> int | None:
    if partition is not None and (type(partition) is not int or not 0 <= partition < 2**31):
        raise ValueError(f"{shortened(partition)} is not a partition: it must be a whole number from 0, or None")
    return partition


def _checked_headers(headers: Any) -> Headers | None:
    """Accept a mapping, a list of pairs, or a list of `{"key": …, "value": …}` as a Kafka source emits them."""
    if headers is None:
        return None
    try:
        items = headers.items() if isinstance(headers, Mapping) else headers
        pairs = [(item["key"], item["value"]) if isinstance(item, Mapping) else item for item in items]
        return [(_text(name), value.encode() if isinstance(value, str) else _nullable(value)) for name, value in pairs]
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(
            f"{shortened(headers)} are not headers: they must be a dict, or a list of pairs, of names and text or bytes"
        ) from error


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(name)
    return name


def _nullable(value: Any) -> bytes | None:
    return None if value is None else _as_bytes(value)
