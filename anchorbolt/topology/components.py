"""`Components`, the spouts and bolts that a builder collects, and their checked graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from anchorbolt.bolts.base import Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import OutputFieldsDeclarer, StreamDeclaration, check_name
from anchorbolt.topology import validation
from anchorbolt.topology.declarer import BoltDeclarer
from anchorbolt.topology.graph import BoltSpec, Component, SpoutSpec, Topology


class Components:
    """The components of one topology, in the order of their declaration. Every refusal is a `TopologyError`."""

    def __init__(self) -> None:
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
        self._spouts[id] = SpoutSpec(id, spout, parallelism, _declared(id, spout))

    def add_bolt(self, id: str, bolt: Bolt, parallelism: int, *, is_committer: bool = False) -> BoltDeclarer:
        """Add a bolt that has passed `check_new`. Calls its `declare_output_fields`."""
        validation.check_parallelism(id, parallelism)
        declarer = BoltDeclarer(id)
        ticks = validation.tick_secs_of(id, bolt)
        spec = BoltSpec(id, bolt, parallelism, (), _declared(id, bolt), ticks, is_committer)
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
