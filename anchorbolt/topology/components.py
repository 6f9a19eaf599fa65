"""`Components`, the spouts and bolts that a builder collects, and their checked graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import (
    DEFAULT_STREAM,
    CustomStreamGrouping,
    GlobalStreamId,
    Grouping,
    OutputFieldsDeclarer,
    StreamDeclaration,
    check_name,
    wrong_fields,
)
from anchorbolt.topology import validation
from anchorbolt.topology.graph import BoltSpec, Component, Input, SpoutSpec, Topology
from anchorbolt.topology.time import time_of


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
        """Any distribution is acceptable: same as `local_or_shuffle_grouping`."""
        return self._take(component, stream, Grouping("none"))

    def local_or_shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send tuples to the task with the emitting task's index if this bolt is chained, else as `shuffle_grouping`.

        A bolt is chained to another bolt, and needs no Spark stage, if it takes all its input from that bolt by this
        grouping or `none_grouping`, and has as many tasks.
        """
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


class Components:
    """The components of one topology, in the order of their declaration. Every refusal is a `TopologyError`."""

    def __init__(self, attempt_field: str = "") -> None:
        """Create it; see `OutputFieldsDeclarer` for `attempt_field`."""
        self._attempt_field = attempt_field
        self._spouts: dict[str, SpoutSpec] = {}
        self._bolts: dict[str, tuple[BoltSpec, BoltDeclarer]] = {}

    def check_new(self, id: str, component: Spout | Bolt, kind: type[Spout] | type[Bolt]) -> None:
        """Check that a component may have this id, and that it is of this kind."""
        check_name("component", id)
        if id in self._spouts or id in self._bolts:
            other = "spout" if id in self._spouts else "bolt"
            raise TopologyError(
                f"component id {id!r} is taken by a {other}. Give each component its own id.", component=id
            )
        validation.check_instance(id, component, kind)

    def add_spout(self, id: str, spout: Spout, parallelism: int | None) -> None:
        """Add a spout that has passed `check_new`. Calls its `declare_output_fields`."""
        if parallelism is not None:
            validation.check_parallelism(id, parallelism)
        self._spouts[id] = SpoutSpec(id, spout, parallelism, _declared(id, spout, self._attempt_field))

    def add_bolt(self, id: str, bolt: Bolt, parallelism: int, *, is_committer: bool = False) -> BoltDeclarer:
        """Add a bolt that has passed `check_new`. Calls its `declare_output_fields`."""
        validation.check_parallelism(id, parallelism)
        declarer = BoltDeclarer(id)
        given_type, bolt = type(bolt).__name__, _executed(id, bolt)
        ticks = validation.tick_secs_of(id, bolt)
        spec = BoltSpec(
            id,
            bolt,
            parallelism,
            (),
            _declared(id, bolt, self._attempt_field),
            ticks,
            is_committer,
            time_of(id, bolt),
            given_type,
        )
        self._bolts[id] = spec, declarer
        return declarer

    def topology(self, name: str) -> Topology:
        """Check the whole graph and return it. Later changes of the components do not affect it."""
        check_name("topology", name)
        bolts = {id: replace(spec, inputs=declarer.inputs) for id, (spec, declarer) in self._bolts.items()}
        specs: dict[str, Component] = {**self._spouts, **bolts}
        validation.check_graph(specs)
        sources = {id: spec.sources if isinstance(spec, BoltSpec) else () for id, spec in specs.items()}
        order = validation.topological_order(sources)
        validation.check_exclusive(name, specs.values())
        validation.check_picklable(specs.values())
        return Topology(name, MappingProxyType({id: specs[id] for id in order}))


def _executed(id: str, bolt: Bolt) -> Bolt:
    try:
        return bolt.as_executed()
    except TopologyError as error:
        raise TopologyError(f"bolt {id!r}: {error.message}", component=id) from None


def _declared(id: str, component: Spout | Bolt, attempt_field: str) -> Mapping[str, StreamDeclaration]:
    declarer = OutputFieldsDeclarer(id, attempt_field)
    try:
        component.declare_output_fields(declarer)
    except TopologyError:
        raise
    except Exception as error:
        raise TopologyError(
            f"component {id!r}: its declare_output_fields raised {type(error).__name__}: {error}. It must only declare "
            "streams: it is called before prepare, on the driver.",
            component=id,
        ) from error
    return MappingProxyType(dict(declarer.streams))
