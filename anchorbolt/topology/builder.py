"""`TopologyBuilder`: adds components to a topology and connects them."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import OutputFieldsDeclarer, StreamDeclaration, check_name
from anchorbolt.topology.declarer import BoltDeclarer
from anchorbolt.topology.graph import BoltSpec, Component, SpoutSpec, Topology
from anchorbolt.topology.validation import (
    check_graph,
    check_instance,
    check_parallelism,
    check_picklable,
    topological_order,
)


class TopologyBuilder:
    """Collects spouts and bolts, in any order, and creates a `Topology` from them."""

    def __init__(self) -> None:
        self._spouts: dict[str, SpoutSpec] = {}
        self._bolts: dict[str, BoltSpec] = {}
        self._declarers: dict[str, BoltDeclarer] = {}

    def set_spout(self, id: str, spout: Spout, parallelism: int | None = None) -> None:
        """Add a spout. Calls its `declare_output_fields`.

        Args:
            id: An id that no other component has.
            spout: The spout.
            parallelism: The number of its tasks; for a stream spout, the upper bound. None leaves it to the spout.

        Raises:
            TopologyError: The id is invalid, reserved or taken; `spout` is not a spout; the parallelism is not an int
                of at least 1; or `declare_output_fields` raised.
        """
        self._check_id(id)
        check_instance(id, spout, Spout)
        if parallelism is not None:
            check_parallelism(id, parallelism)
        self._spouts[id] = SpoutSpec(id, spout, parallelism, _declared(id, spout))

    def set_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and return the declarer of its inputs. Calls its `declare_output_fields`.

        Args:
            id: An id that no other component has. It is part of the name under which a stateful bolt's state is
                stored.
            bolt: The bolt. It is pickled when the topology is created.
            parallelism: The number of its tasks.

        Raises:
            TopologyError: For the same reasons as in `set_spout`.
        """
        self._check_id(id)
        check_instance(id, bolt, Bolt)
        check_parallelism(id, parallelism)
        self._bolts[id] = BoltSpec(id, bolt, parallelism, (), _declared(id, bolt))
        self._declarers[id] = BoltDeclarer(id)
        return self._declarers[id]

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
        bolts = {id: replace(spec, inputs=self._declarers[id].inputs) for id, spec in self._bolts.items()}
        specs: dict[str, Component] = {**self._spouts, **bolts}
        check_graph(specs)
        sources = {id: spec.sources if isinstance(spec, BoltSpec) else () for id, spec in specs.items()}
        order = topological_order(sources)
        check_picklable(bolts.values())
        return Topology(name, MappingProxyType({id: specs[id] for id in order}))

    def _check_id(self, id: str) -> None:
        check_name("component", id)
        if id in self._spouts or id in self._bolts:
            kind = "spout" if id in self._spouts else "bolt"
            raise TopologyError(
                f"component id {id!r} is taken by a {kind}. Give each component its own id.", component=id
            )


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
