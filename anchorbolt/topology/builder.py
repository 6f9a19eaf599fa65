"""`TopologyBuilder` adds components to a topology; its `BoltDeclarer` declares the streams that a bolt takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.stream import Spout
from anchorbolt.streams.declaration import (
    DEFAULT_STREAM,
    OutputFieldsDeclarer,
    StreamDeclaration,
    check_name,
    wrong_fields,
)
from anchorbolt.streams.groupings import CustomStreamGrouping, GlobalStreamId, Grouping
from anchorbolt.topology import validation
from anchorbolt.topology.graph import BoltSpec, Component, Input, SpoutSpec, Topology


class TopologyBuilder:
    """Collects spouts and bolts, in any order, and creates a `Topology` from them."""

    def __init__(self) -> None:
        self._spouts: dict[str, SpoutSpec] = {}
        self._bolts: dict[str, tuple[BoltSpec, BoltDeclarer]] = {}

    def set_spout(self, id: str, spout: Spout, parallelism: int | None = None) -> None:
        """Add a spout. Calls its `declare_output_fields`.

        Args:
            id: An id that no other component has.
            spout: The spout. A rich spout is pickled for its tasks.
            parallelism: The number of its tasks; for a stream spout, the upper bound. None means one task; for a stream
                spout, one for each partition of its source.

        Raises:
            TopologyError: The id is invalid, reserved or taken; `spout` is not a spout; the parallelism is not an int
                of at least 1; or `declare_output_fields` raised.
        """
        self._check_id(id)
        validation.check_instance(id, spout, Spout)
        if parallelism is not None:
            validation.check_parallelism(id, parallelism)
        self._spouts[id] = SpoutSpec(id, spout, parallelism, _declared(id, spout))

    def set_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and return the declarer of its inputs. Calls its `declare_output_fields`.

        Args:
            id: An id that no other component has. It is part of the name under which a stateful bolt's state is
                stored.
            bolt: The bolt. It is pickled when the topology is created.
            parallelism: The number of its tasks.

        Raises:
            TopologyError: For the same reasons as in `set_spout`, or its `get_component_configuration` returns another
                setting than `topology.tick.tuple.freq.secs`, or one that is not a number above 0.
        """
        self._check_id(id)
        validation.check_instance(id, bolt, Bolt)
        validation.check_parallelism(id, parallelism)
        declarer = BoltDeclarer(id)
        ticks = validation.tick_secs_of(id, bolt)
        self._bolts[id] = BoltSpec(id, bolt, parallelism, (), _declared(id, bolt), ticks), declarer
        return declarer

    def create_topology(self, name: str) -> Topology:
        """Check the whole graph and return it.

        Args:
            name: The topology's name. It is part of the name under which the state is stored.

        Raises:
            TopologyError: The name is invalid or reserved; there is no spout or no bolt; a bolt has no input, takes
                an unknown stream, groups by an undeclared field, or combines a direct stream with another grouping
                than direct grouping, or the reverse; bolts form a cycle; or a bolt or a custom grouping cannot be
                pickled.
        """
        check_name("topology", name)
        bolts = {id: replace(spec, inputs=declarer.inputs) for id, (spec, declarer) in self._bolts.items()}
        specs: dict[str, Component] = {**self._spouts, **bolts}
        validation.check_graph(specs)
        sources = {id: spec.sources if isinstance(spec, BoltSpec) else () for id, spec in specs.items()}
        order = validation.topological_order(sources)
        validation.check_picklable(specs.values())
        return Topology(name, MappingProxyType({id: specs[id] for id in order}))

    def _check_id(self, id: str) -> None:
        check_name("component", id)
        if id in self._spouts or id in self._bolts:
            kind = "spout" if id in self._spouts else "bolt"
            raise TopologyError(
                f"component id {id!r} is taken by a {kind}. Give each component its own id.", component=id
            )


class BoltDeclarer:
    """Declares the inputs of one bolt. Every method returns the declarer, so that calls can be chained.

    `component` is the id of the component that emits the stream; it may be added to the topology later. `stream` is
    the stream's name. A bolt can take each stream once.

    A method raises `TopologyError` if an argument is invalid or the bolt already takes the stream.
    `TopologyBuilder.create_topology` checks later that the component, stream and fields exist.
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
        """Send each key to one of two tasks, the one that got fewer tuples. For skewed keys."""
        return self._take(component, stream, self._by_key("partial_key", component, fields))

    def all_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send every tuple to every task."""
        return self._take(component, stream, Grouping("all"))

    def global_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send every tuple to the bolt's first task."""
        return self._take(component, stream, Grouping("global"))

    def none_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Any distribution will do: same as `shuffle_grouping`."""
        return self._take(component, stream, Grouping("none"))

    def local_or_shuffle_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Same as `shuffle_grouping`: Spark's shuffle separates any two bolts. Accepted for topologies from Storm."""
        return self._take(component, stream, Grouping("local_or_shuffle"))

    def direct_grouping(self, component: str, stream: str = DEFAULT_STREAM) -> BoltDeclarer:
        """Send each tuple to the task that its emitter names with `emit_direct`, on a stream declared direct."""
        return self._take(component, stream, Grouping("direct"))

    def custom_grouping(
        self, component: str, grouping: CustomStreamGrouping, stream: str = DEFAULT_STREAM
    ) -> BoltDeclarer:
        """Send each tuple to the tasks that your own grouping chooses."""
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


def _declared(id: str, component: Spout | Bolt) -> Mapping[str, StreamDeclaration]:
    declarer = OutputFieldsDeclarer(id)
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
