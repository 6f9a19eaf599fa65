"""Tuples in the form that bolts receive."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

_SHOWN_CHARACTERS = 200

SYSTEM_ID, TICK_STREAM = "__system", "__tick"

Item = int | tuple[int, ...]
"""The hidden last value of an emitted row: the tuple's only root, or a tuple of several or no roots."""


class StreamHeader:
    """The source and the fields that all tuples of a batch share.

    For a stream spout, `task` is the index of the source's partition. `index` maps a field's name, or a position that
    may be negative, to a position. `receiver` is the `receiver_key` of the task that the tuples were sent to, and
    `attempt` is the attempt of the task that received them; a pickled copy has no attempt.
    """

    __slots__ = ("attempt", "component", "fields", "index", "receiver", "stream", "task")

    def __init__(
        self, component: str, task: int, stream: str, fields: tuple[str, ...], receiver: int = 0, attempt: str = ""
    ) -> None:
        self.attempt = attempt
        self.receiver = receiver
        self.component = component
        self.task = task
        self.stream = stream
        self.fields = fields
        index: dict[str | int, int] = {field: position for position, field in enumerate(fields)}
        index.update((position, position) for position in range(-len(fields), len(fields)))
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamHeader, (self.component, self.task, self.stream, self.fields, self.receiver)


class Tuple:
    """One tuple of a stream: a named list of values. Do not change the values.

    `tup["word"]` and `tup[0]` return a value; `len`, iteration and `in` (over values) work as on a list.

    Attributes:
        values: The values, in the order of `fields`.
    """

    __slots__ = ("_header", "values")

    def __init__(self, values: tuple[Any, ...], header: StreamHeader) -> None:
        self.values = values
        self._header = header

    def __getitem__(self, field: str | int) -> Any:
        try:
            return self.values[self._header.index[field]]
        except KeyError:
            raise _no_such_field(field, self._header) from None

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def get(self, field: str, default: Any = None) -> Any:
        """Return the value of `field`, or `default` if the stream has no such field."""
        position = self._header.index.get(field)
        return default if position is None else self.values[position]

    def as_dict(self) -> dict[str, Any]:
        """Return the values by field name."""
        return dict(zip(self._header.fields, self.values, strict=True))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the values, in order."""
        return self._header.fields

    @property
    def source_component(self) -> str:
        """Id of the component that emitted this tuple."""
        return self._header.component

    @property
    def source_task(self) -> int:
        """Id of the task that emitted this tuple; for a stream spout, the index of the source's partition."""
        return self._header.task

    @property
    def source_stream(self) -> str:
        """Name of the stream that this tuple belongs to."""
        return self._header.stream

    @property
    def is_tick(self) -> bool:
        """Whether this is a tick tuple: of component `__system`, stream `__tick`, with the field `rate_secs`.

        `topology.tick.tuple.freq.secs` sets how often each task of a bolt gets one. It comes at the end of a wave,
        after the wave's other tuples, and causes a wave if none is due.
        """
        return self._header.stream == TICK_STREAM and self._header.component == SYSTEM_ID

    @property
    def handle(self) -> bytes:
        """The bytes to keep in the state of a bolt that acks the tuple in a later wave.

        `collector.ack`, `fail`, `reset_timeout` and the anchors of an `emit` accept it instead of the tuple. Only the
        task that received the tuple may use it.
        """
        return TupleHandle(self._header.receiver, 0, ()).encode()

    def __repr__(self) -> str:
        text = ", ".join(f"{field}={value!r}" for field, value in zip(self.fields, self.values, strict=False))
        if len(text) > _SHOWN_CHARACTERS:
            text = text[:_SHOWN_CHARACTERS] + "…"
        return f"Tuple({text}; from {self.source_component!r}, stream {self.source_stream!r})"


class TrackedTuple(Tuple):
    """A tuple in a topology whose tuple trees are tracked.

    Attributes:
        roots: The trees that it belongs to: one root, or a tuple of several or no roots.
        id: Its id in these trees.
        status: 0 at first, `ACKED` or `FAILED` after that call.
    """

    __slots__ = ("id", "roots", "status")

    def __init__(self, values: tuple[Any, ...], header: StreamHeader, roots: Item, id: int) -> None:
        self.values = values
        self._header = header
        self.roots = roots
        self.id = id
        self.status = 0

    @property
    def receiver(self) -> int:
        """The `receiver_key` of the task that received the tuple."""
        return self._header.receiver

    @property
    def handle(self) -> bytes:
        """See `Tuple.handle`."""
        return TupleHandle(self._header.receiver, self.id, self.roots).encode()


ACKED, FAILED = 1, 2

_HANDLE = struct.Struct("<BQQ")
_HANDLE_VERSION = 1


def receiver_key(component: str, index: int) -> int:
    """Return a number for a bolt's task that does not depend on the rest of the topology, as the task's id does."""
    return crc32(component.encode()) << 32 | index


class TupleHandle(NamedTuple):
    """The decoded form of `Tuple.handle`: the data needed to ack a tuple."""

    receiver: int  # `receiver_key` of the task
    id: int
    roots: Item

    def encode(self) -> bytes:
        roots = (self.roots,) if isinstance(self.roots, int) else self.roots
        return _HANDLE.pack(_HANDLE_VERSION, self.receiver, self.id) + struct.pack(f"<{len(roots)}Q", *roots)

    @classmethod
    def decode(cls, data: bytes) -> TupleHandle | None:
        """Decode a handle; return None if the bytes are not a handle."""
        count, rest = divmod(len(data) - _HANDLE.size, 8)
        if count < 0 or rest or data[0] != _HANDLE_VERSION:
            return None
        _, receiver, id = _HANDLE.unpack_from(data)
        roots: tuple[int, ...] = struct.unpack_from(f"<{count}Q", data, _HANDLE.size)
        return cls(receiver, id, roots[0] if count == 1 else roots)


def _no_such_field(field: object, header: StreamHeader) -> Exception:
    if isinstance(field, int):
        return IndexError(f"tuple of {header.component!r} has {len(header.fields)} values, no position {field}")
    return KeyError(
        f"tuple of {header.component!r}, stream {header.stream!r} has the fields "
        f"{', '.join(header.fields)}, not {field!r}"
    )


def union(items: Iterable[Item]) -> Item:
    """Return the roots of a tuple whose anchors have the roots `items`, each root once."""
    roots: dict[int, None] = {}
    for item in items:
        if isinstance(item, int):
            roots[item] = None
        else:
            roots.update(dict.fromkeys(item))
    return next(iter(roots)) if len(roots) == 1 else tuple(roots)
