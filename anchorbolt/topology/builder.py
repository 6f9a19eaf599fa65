"""`TopologyBuilder`: where a job author names the components of a topology and wires them."""

from __future__ import annotations

from dataclasses import replace

from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import OutputFieldsDeclarer, StreamDeclaration, check_name
from anchorbolt.topology.declarer import BoltDeclarer
from anchorbolt.topology.graph import (
    BoltSpec,
    BoltWrapper,
    CheckpointSpoutSpec,
    Component,
    SpoutSpec,
    Topology,
)
from anchorbolt.topology.order import topological_order
from anchorbolt.topology.validation import check_graph, check_instance, check_parallelism, check_picklable


class TopologyBuilder:
    """Collects spouts and bolts, in any order, and makes a `Topology` of them."""

    def __init__(self) -> None:
        self._spouts: dict[str, SpoutSpec] = {}
        self._bolts: dict[str, BoltSpec] = {}
        self._declarers: dict[str, BoltDeclarer] = {}

    def set_spout(self, id: str, spout: Spout, parallelism: int | None = None) -> None:
        """Add a spout. Calls its `declare_output_fields`.

        Args:
            id: Its id, unlike that of any other component.
            spout: The spout.
            parallelism: How many tasks it has; for a stream spout, how many at most. None leaves it to the spout.

        Raises:
            TopologyError: The id is not valid, reserved or taken; `spout` is no spout; the parallelism is not an int
                of at least 1; or `declare_output_fields` raised.
        """
        self._check_id(id)
        check_instance(id, spout, Spout)
        if parallelism is not None:
            check_parallelism(id, parallelism)
        self._spouts[id] = SpoutSpec(id, spout, parallelism, _declared(id, spout))

    def set_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and return what its inputs are declared with. Calls its `declare_output_fields`.

        Args:
            id: Its id, unlike that of any other component. With a stateful bolt, its state is found by it.
            bolt: The bolt, which is pickled when the topology is created.
            parallelism: How many tasks it has.

        Raises:
            TopologyError: As in `set_spout`.
        """
        self._check_id(id)
        check_instance(id, bolt, Bolt)
        check_parallelism(id, parallelism)
        self._bolts[id] = BoltSpec(id, bolt, parallelism, (), _declared(id, bolt))
        self._declarers[id] = BoltDeclarer(id)
        return self._declarers[id]

    def create_topology(self, name: str) -> Topology:
        """Check the graph as a whole and return it.

        With a stateful bolt in it, the checkpoint spout is added, and every bolt gets the wrapper that passes
        checkpoint tuples on.

        Args:
            name: The topology's name. State is found by it.

        Raises:
            TopologyError: The name is not valid or reserved; there is no spout or no bolt; a bolt has no input, takes
                from an unknown component or stream, is grouped by a field that the stream does not declare, takes a
                direct stream other than by direct grouping or the reverse; bolts form a cycle; or a bolt or a custom
                grouping cannot be pickled.
        """
        check_name("topology", name)
        bolts = {id: replace(spec, inputs=self._declarers[id].inputs) for id, spec in self._bolts.items()}
        specs: dict[str, SpoutSpec | BoltSpec] = {**self._spouts, **bolts}
        check_graph(specs)
        order = topological_order({id: _sources(spec) for id, spec in specs.items()})
        check_picklable(bolts.values())
        components: dict[str, Component] = {id: specs[id] for id in order}
        if any(spec.is_stateful for spec in bolts.values()):
            checkpoint_spout = CheckpointSpoutSpec()
            wrapped = {id: _wrapped(spec) for id, spec in components.items()}
            components = {checkpoint_spout.id: checkpoint_spout, **wrapped}
        return Topology(name, components)

    def _check_id(self, id: str) -> None:
        check_name("component", id)
        if id in self._spouts or id in self._bolts:
            kind = "spout" if id in self._spouts else "bolt"
            raise TopologyError(
                f"component {id!r} is set already, as a {kind}. Give each component an id of its own.",
                component=id,
            )


def _declared(id: str, component: Spout | Bolt) -> dict[str, StreamDeclaration]:
    declarer = OutputFieldsDeclarer(id)
    try:
        component.declare_output_fields(declarer)
    except TopologyError:
        raise
    except Exception as error:
        raise TopologyError(
            f"component {id!r}: its declare_output_fields raised {type(error).__name__}: {error}. It must only declare "
            "streams: it is called before prepare, and not on a worker.",
            component=id,
        ) from error
    return dict(declarer.streams)


def _sources(spec: SpoutSpec | BoltSpec) -> tuple[str, ...]:
    return spec.sources if isinstance(spec, BoltSpec) else ()


def _wrapped(spec: Component) -> Component:
    if not isinstance(spec, BoltSpec):
        return spec
    stateful, plain = BoltWrapper.STATEFUL_BOLT_EXECUTOR, BoltWrapper.CHECKPOINT_TUPLE_FORWARDER
    return replace(spec, wrapper=stateful if spec.is_stateful else plain)
