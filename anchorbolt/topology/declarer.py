"""`BoltDeclarer`, which declares the input streams of a bolt."""

from __future__ import annotations

from anchorbolt.errors import TopologyError
from anchorbolt.streams.declaration import (
    DEFAULT_STREAM,
    CustomStreamGrouping,
    GlobalStreamId,
    Grouping,
    check_name,
    wrong_fields,
)
from anchorbolt.topology.graph import Input


class BoltDeclarer:
    """Declares the inputs of one bolt. Every method returns the declarer, so that calls can be chained.

    `component` is the id of the component that emits the stream; it may be added to the topology later. `stream` is
    the stream's name. A bolt can receive each stream once.

    A method raises `TopologyError` if an argument is invalid or the bolt already receives the stream.
    `create_topology` and `build_topology` check later that the component, stream and fields exist.
    """

    def __init__(self, bolt_id: str) -> None:
        self._bolt_id = bolt_id
        self._inputs: dict[GlobalStreamId, Grouping] = {}

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs declared so far."""
        return tuple(Input(source, grouping) for source, grouping in self._inputs.items())

    def shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send tuples to the tasks in turn, so that all tasks get the same number."""
        return self._take(component, stream, Grouping("shuffle"))

    def fields_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send tuples with equal values of `fields` to the same task."""
        return self._take(component, stream, self._by_key("fields", component, fields))

    def partial_key_grouping(self, component: str, *fields: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send each key to one of two tasks, always the one with fewer tuples so far. For skewed keys."""
        return self._take(component, stream, self._by_key("partial_key", component, fields))

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send every tuple to every task."""
        return self._take(component, stream, Grouping("all"))

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send every tuple to the bolt's first task."""
        return self._take(component, stream, Grouping("global"))

    def none_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Any distribution is acceptable: same as `shuffle_grouping`."""
        return self._take(component, stream, Grouping("none"))

    def local_or_shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Same as `shuffle_grouping`: Spark's shuffle separates any two bolts. Accepted for topologies from Storm."""
        return self._take(component, stream, Grouping("local_or_shuffle"))

    def direct_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send each tuple to the task that its emitter chooses with `emit_direct`, on a stream declared direct."""
        return self._take(component, stream, Grouping("direct"))

    def custom_grouping(
        self, component: str, grouping: CustomStreamGrouping, stream: str = DEFAULT_STREAM
    ) -> BoltDeclarer:
        """Send each tuple to the tasks that your `grouping` chooses."""
        if isinstance(grouping, type):
            name = grouping.__name__
            raise self._refusal(f"custom_grouping got the class {name}. Pass {name}(), not {name}.")
        if not isinstance(grouping, CustomStreamGrouping):
            raise self._refusal(
                f"custom_grouping got {grouping!r}, of type {type(grouping).__name__}. Pass an instance of a subclass "
                "of anchorbolt.streams.CustomStreamGrouping."
            )
        return self._take(component, stream, Grouping("custom", custom=grouping))

    def _take(self, component: str, stream: str, grouping: Grouping) -> BoltDeclarer:
        source = GlobalStreamId(check_name("component", component), check_name("stream", stream))
        if source in self._inputs:
            raise self._refusal(
                f"stream {stream!r} of {component!r} is already taken by {self._inputs[source]}, now by {grouping}. "
                "A bolt takes each stream once; for a second grouping, add a second bolt."
            )
        self._inputs[source] = grouping
        return self

    def _by_key(self, name: str, component: object, fields: tuple[str, ...]) -> Grouping:
        call = f"{name}_grouping({component!r}, "
        problem = wrong_fields(call, fields) if fields else f"names no field. Name at least one, as in {call}'word')."
        if problem:
            raise self._refusal(f"{name}_grouping: {problem}")
        return Grouping(name, fields)

    def _refusal(self, message: str) -> TopologyError:
        return TopologyError(f"bolt {self._bolt_id!r}: {message}", component=self._bolt_id)
