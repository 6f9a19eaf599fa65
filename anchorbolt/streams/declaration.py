"""The declaration of the streams that a component emits, and of the groupings by which bolts receive them.

To add a grouping: write its router in `routing`, enter the router in `routing.ROUTERS` under the grouping's name, and
add the method NAME_grouping to `topology.components.BoltDeclarer`; its docstring describes the grouping.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from anchorbolt.errors import TopologyError
from anchorbolt.streams.arrow_types import wrong_types
from anchorbolt.streams.context import TopologyContext
from anchorbolt.util.messages import shortened

if TYPE_CHECKING:
    import pyarrow

DEFAULT_STREAM = "default"

ATTEMPT_FIELD = "tx"
"""The field of a typed stream for the attempt, in a transactional topology."""

ACKER_ID, CHECKPOINT_SPOUT_ID = "__acker", "$checkpointspout"
"""Ids of the components that Anchorbolt adds to a topology."""

_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,127}")


def check_name(kind: str, name: object) -> str:
    """Return `name` if a topology, component or stream may have it; otherwise raise `TopologyError`."""
    if isinstance(name, str) and name.startswith(("$", "__")):
        problem = "reserved: Anchorbolt itself uses names that start with '$' or '__'. Choose another one."
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        problem = "not a valid name. Use 1 to 128 of the characters A-Z a-z 0-9 _ . - and no leading dot."
    else:
        return name
    raise TopologyError(f"{kind} {name!r} is {problem}", component=name if isinstance(name, str) else None)


def wrong_fields(call: str, fields: Sequence[object]) -> str:
    """Return the problem with the fields of a call, whose text starts with `call`; empty if there is none."""
    for field in fields:
        if not isinstance(field, str) or not field:
            return f"field {field!r} is not a name. Pass each field as a string, as in {call}'word', 'count')."
        if fields.count(field) > 1:
            return f"field {field!r} is named twice. Name each field once."
    return ""


@dataclass(frozen=True)
class StreamDeclaration:
    fields: tuple[str, ...]
    direct: bool = False  # the emitter chooses the receiving task, with `emit_direct`
    schema: pyarrow.Schema | None = None  # types of the fields, without the one for the attempt; None without types

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a batch of columns: those of `schema`, if there is one."""
        return self.fields if self.schema is None else tuple(self.schema.names)


def not_a_row(values: object, stream: str) -> str:
    """Return the problem with emitted values that are neither a tuple nor a list, as the end of a message."""
    return (
        f"emitted {shortened(values, 120)}, a {type(values).__name__}, to stream {stream!r}. Emit a tuple or list "
        "with one value per field; a single value is written (value,)."
    )


def wrong_width(row: Sequence[object], stream: str, fields: Sequence[str]) -> str:
    """Return the problem with an emitted row that has a wrong number of values, as the end of a message."""
    return (
        f"emitted {len(row)} values to stream {stream!r}, which declares {len(fields)}: {', '.join(fields)}. Got "
        f"{shortened(row, 120)}. Emit one value per field; a single value is written (value,)."
    )


def wrong_stream(streams: Mapping[str, StreamDeclaration], stream: str, used: str) -> str:
    """Return the problem with a call of `emit` or `emit_direct` (`used`) for a stream, as the end of a message."""
    if stream in streams:
        other, negated = ("emit", "not ") if used == "emit_direct" else ("emit_direct", "")
        return (
            f"called {used} for stream {stream!r}, which is {negated}declared direct. Use {other}, or change the "
            "declaration."
        )
    return (
        f"emitted to stream {stream!r}, which it does not declare. Declared: {', '.join(streams) or 'none'}. Add it in "
        "declare_output_fields."
    )


class OutputFieldsDeclarer:
    """Collects the streams that a component declares. The builder passes it to `declare_output_fields`."""

    def __init__(self, component: str, attempt_field: str = "") -> None:
        """Create it; `attempt_field` is the first field of typed streams, for the attempt; empty for no such field."""
        self._component = component
        self._attempt_field = attempt_field
        self._streams: dict[str, StreamDeclaration] = {}

    @property
    def streams(self) -> Mapping[str, StreamDeclaration]:
        """The streams declared so far, by name."""
        return MappingProxyType(self._streams)

    def declare(self, *fields: str | pyarrow.Schema, direct: bool = False) -> None:
        """Declare the default stream with these fields.

        Args:
            fields: The names of the fields; or a `pyarrow.Schema` alone, for names and types. A value that is emitted
                to a typed stream must fit its type. In a transactional topology a typed stream gets a first field `tx`
                for the attempt, which the schema does not name.
            direct: Whether the emitter chooses the receiving task, with `emit_direct`.

        Raises:
            TopologyError: A field is not a string or is named twice, a type is not supported, or the stream is already
                declared.
        """
        self._add(DEFAULT_STREAM, fields, direct)

    def declare_stream(self, stream: str, *fields: str | pyarrow.Schema, direct: bool = False) -> None:
        """Declare a named stream with these fields. Otherwise like `declare`."""
        self._add(check_name("stream", stream), fields, direct)

    def _add(self, stream: str, fields: tuple[str | pyarrow.Schema, ...], direct: bool) -> None:
        schema, problem = None, ""
        if len(fields) == 1 and hasattr(fields[0], "names") and hasattr(fields[0], "types"):
            schema = fields[0]
            fields = (self._attempt_field, *schema.names) if self._attempt_field else tuple(schema.names)
            problem = wrong_types(schema)
        problem = wrong_fields("declare(", fields) or problem
        if stream in self._streams:
            problem = "declared twice. Declare each stream once."
        if problem:
            where = f"component {self._component!r}, stream {stream!r}"
            raise TopologyError(f"{where}: {problem}", component=self._component)
        self._streams[stream] = StreamDeclaration(cast("tuple[str, ...]", fields), direct, schema)


class GlobalStreamId(NamedTuple):
    """A stream of the topology: the id of the component that emits it, and the stream's name there."""

    component: str
    stream: str = "default"


class CustomStreamGrouping(ABC):
    """Base class for a custom grouping, which chooses the receiving tasks of each tuple.

    The object is pickled with the topology and unpickled in each task that emits the stream. So its attributes must
    be picklable; create anything else in `prepare`.
    """

    @abstractmethod
    def prepare(self, context: TopologyContext, stream: GlobalStreamId, target_tasks: Sequence[int]) -> None:
        """Called once in each emitting task, before its first `choose_tasks`.

        Args:
            context: The emitting task's context.
            stream: The stream to distribute.
            target_tasks: Ids of the receiving bolt's tasks, ordered by task index.
        """

    @abstractmethod
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        """Return the ids of the tasks, from `target_tasks`, that get a tuple; an empty list drops the tuple.

        Called once for each tuple, in the order of emission. Must return the same tasks if the same tuples are emitted
        again: the engine may compute a wave twice.

        Args:
            task_id: Id of the emitting task.
            values: The tuple's values.
        """


@dataclass(frozen=True)
class Grouping:
    """How a bolt receives a stream. `str` gives its name and fields, as in `fields(word)`."""

    name: str  # the method of `BoltDeclarer`, without `_grouping`
    fields: tuple[str, ...] = ()  # of fields and partial_key: the declared fields that choose the task
    custom: CustomStreamGrouping | None = None  # of custom: the object that chooses the tasks

    def __str__(self) -> str:
        arguments = ", ".join(self.fields) if self.custom is None else type(self.custom).__name__
        return f"{self.name}({arguments})" if arguments else self.name
