"""`TopologyBuilder` for ordinary topologies, and `BoltDeclarer`, which declares the input streams of a bolt."""

from __future__ import annotations

from anchorbolt.bolts.base import Bolt
from anchorbolt.spouts.base import Spout
from anchorbolt.topology import validation
from anchorbolt.topology.components import BoltDeclarer, Components
from anchorbolt.topology.graph import Topology


class TopologyBuilder:
    """Collects spouts and bolts, in any order, and creates a `Topology` from them."""

    def __init__(self) -> None:
        self._components = Components()

    def set_spout(self, id: str, spout: Spout, parallelism: int | None = None) -> None:
        """Add a spout. Calls its `declare_output_fields`.

        Args:
            id: An id that no other component has.
            spout: The spout. A rich spout is pickled for its tasks.
            parallelism: The number of its tasks; for a stream spout, the upper bound. None means one task; for a stream
                spout, one for each partition of its source.

        Raises:
            TopologyError: The id is invalid, reserved or taken; `spout` is not a spout, or belongs in a
                `TransactionalTopologyBuilder`; the parallelism is not an int of at least 1; or `declare_output_fields`
                raised.
        """
        self._components.check_new(id, spout, Spout)
        validation.refuse_transactional(id, spout)
        self._components.add_spout(id, spout, parallelism)

    def set_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and return the declarer of its inputs. Calls its `declare_output_fields`.

        Args:
            id: An id that no other component has. It is part of the name under which a stateful bolt's state is
                stored.
            bolt: The bolt. It is pickled when the topology is created.
            parallelism: The number of its tasks.

        Raises:
            TopologyError: For the same reasons as in `set_spout`, or its `get_component_configuration` returns a
                setting other than `topology.tick.tuple.freq.secs`, or a value that is not a number above 0.
        """
        self._components.check_new(id, bolt, Bolt)
        validation.refuse_transactional(id, bolt)
        return self._components.add_bolt(id, bolt, parallelism)

    def create_topology(self, name: str) -> Topology:
        """Check the whole graph and return it.

        Args:
            name: The topology's name. It is part of the name under which the state is stored.

        Raises:
            TopologyError: The name is invalid or reserved; there is no spout or no bolt; a bolt has no input, receives
                an unknown stream, groups by an undeclared field, or combines a direct stream with a grouping other than
                direct grouping, or the reverse; bolts form a cycle; two sinks use a resource that only one may use; or
                a bolt, a custom grouping or a rich spout cannot be pickled.
        """
        return self._components.topology(name)
