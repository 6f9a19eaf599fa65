"""Declarers: what `set_bolt` returns, to say which streams a bolt takes and how. Looks at no other component yet."""

from __future__ import annotations

from anchorbolt.errors import TopologyError
from anchorbolt.streams.declaration import DEFAULT_STREAM, check_name
from anchorbolt.streams.groupings import (
    AllGrouping,
    CustomGrouping,
    CustomStreamGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    GlobalStreamId,
    Grouping,
    LocalOrShuffleGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)
from anchorbolt.topology.graph import Input


class BoltDeclarer:
    """Declares the inputs of one bolt. Every method returns the declarer, so that calls can be chained.

    In all of them `component` is the id of the component to take a stream from, which may be set later on, and
    `stream` the name of that stream. A stream can be taken once.

    All methods raise `TopologyError` where an argument cannot be used or the bolt takes the stream already; that the
    component, stream and fields exist is checked by `TopologyBuilder.create_topology`.
    """

    def __init__(self, bolt_id: str) -> None:
        self._bolt_id = bolt_id
        self._inputs: dict[GlobalStreamId, Grouping] = {}

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The streams taken so far."""
        return tuple(Input(source, grouping) for source, grouping in self._inputs.items())

    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take a stream's tuples in turn, so that all tasks get equally many."""
        return self._take(component, stream, ShuffleGrouping())

    def fields_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take a stream so that tuples with equal values of `fields` reach the same task."""
        return self._take(
            component, stream, FieldsGrouping(self._checked("fields_grouping", component, fields))
        )

    def partial_key_grouping(
        self, component: str, *fields: str, stream: str = DEFAULT_STREAM
    ) -> BoltDeclarer:
        """Take a stream so that each key reaches at most two tasks, the less loaded one each time."""
        checked = self._checked("partial_key_grouping", component, fields)
        return self._take(component, stream, PartialKeyGrouping(checked))

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take every tuple of a stream in every task."""
        return self._take(component, stream, AllGrouping())

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take every tuple of a stream in the bolt's first task."""
        return self._take(component, stream, GlobalGrouping())

    def none_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take a stream in whatever way; the same as `shuffle_grouping`."""
        return self._take(component, stream, NoneGrouping())

    def local_or_shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take a stream as `shuffle_grouping` does: between Spark's stages no task is local to another."""
        return self._take(component, stream, LocalOrShuffleGrouping())

    def direct_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Take from a stream declared direct what its emitter sends to a task by `emit_direct`."""
        return self._take(component, stream, DirectGrouping())

    def custom_grouping(
        self, component: str, grouping: CustomStreamGrouping, stream: str = DEFAULT_STREAM
    ) -> BoltDeclarer:
        """Take a stream by a grouping of your own."""
        if isinstance(grouping, type):
            name = grouping.__name__
            raise self._refusal(f"custom_grouping got the class {name}. Pass {name}(), not {name}.")
        if not isinstance(grouping, CustomStreamGrouping):
            raise self._refusal(
                f"custom_grouping got {grouping!r}, of type {type(grouping).__name__}. Pass an instance of a subclass "
                "of anchorbolt.streams.groupings.CustomStreamGrouping."
            )
        return self._take(component, stream, CustomGrouping(grouping))

    def _take(self, component: str, stream: str, grouping: Grouping) -> BoltDeclarer:
        source = GlobalStreamId(check_name("component", component), check_name("stream", stream))
        if source in self._inputs:
            raise self._refusal(
                f"stream {stream!r} of {component!r} is taken by {self._inputs[source]} already, and now by {grouping} "
                "again. Take each stream once; for a second grouping of it, add a second bolt."
            )
        self._inputs[source] = grouping
        return self

    def _checked(self, method: str, component: object, fields: tuple[str, ...]) -> tuple[str, ...]:
        if not fields:
            raise self._refusal(
                f"{method} names no field. Name at least one, as in {method}({component!r}, 'word')."
            )
        for field in fields:
            if not isinstance(field, str):
                raise self._refusal(
                    f"{method} got the field {field!r}, which is no string. Pass each field as a string of its own, as "
                    f"in {method}({component!r}, 'word', 'day')."
                )
        if len(set(fields)) < len(fields):
            twice = next(field for field in fields if fields.count(field) > 1)
            raise self._refusal(f"{method} names the field {twice!r} twice. Name each field once.")
        return fields

    def _refusal(self, message: str) -> TopologyError:
        return TopologyError(f"bolt {self._bolt_id!r}: {message}", component=self._bolt_id)
