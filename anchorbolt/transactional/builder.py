"""`TransactionalTopologyBuilder`, which makes topologies that process batches as transactions."""

from __future__ import annotations

from anchorbolt.bolts.base import Bolt
from anchorbolt.bolts.batch import Committer
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.transactional import BatchSpout
from anchorbolt.streams.declaration import check_name
from anchorbolt.topology.components import Components
from anchorbolt.topology.declarer import BoltDeclarer
from anchorbolt.topology.graph import Topology
from anchorbolt.transactional import checks


class TransactionalTopologyBuilder:
    """Takes a spout, collects bolts in any order, and creates a `Topology`."""

    def __init__(self, id: str, spout_id: str, spout: BatchSpout, parallelism: int | None = None) -> None:
        """Start a topology with its only spout. Calls the spout's `declare_output_fields`.

        Args:
            id: The topology's name. The progress is stored under it: a topology that is started again continues after
                its last committed batch.
            spout_id: The spout's component id.
            spout: The spout, a `TransactionalSpout`, `PartitionedTransactionalSpout`,
                `OpaquePartitionedTransactionalSpout` or `SparkTransactionalSpout`. It is pickled for the tasks of its
                emitters. A `SparkTransactionalSpout` has no emitters and stays on the driver.
            parallelism: The number of tasks that emit. None means one task. For a `SparkTransactionalSpout`, the
                maximum; None means one task for each partition that Spark makes.

        Raises:
            TopologyError: An id is invalid or reserved; `spout` is not such a spout; the parallelism is not an int of
                at least 1; or `declare_output_fields` raised.
        """
        self._name = check_name("topology", id)
        self._components = Components()
        self._components.check_new(spout_id, spout, Spout)
        checks.check_spout(spout_id, spout)
        self._components.add_spout(spout_id, spout, parallelism)

    def set_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and return the declarer of its inputs. Calls its `declare_output_fields`.

        Args:
            id: A unique component id. It is part of the name under which a stateful bolt's state is stored.
            bolt: A `BaseBasicBolt`, a `BaseBatchBolt`, a `DataFrameSink`, or a `BaseStatefulBolt` with the marker
                `Committer`. A batch bolt with this marker is a committer, too. The bolt is pickled when the topology is
                created.
            parallelism: The number of its tasks.

        Raises:
            TopologyError: The id is invalid, reserved or taken; `bolt` is not such a bolt; its `prepare` cannot take
                its arguments; the parallelism is not an int of at least 1; `declare_output_fields` raised; or
                `get_component_configuration` returned an unknown setting.
        """
        self._components.check_new(id, bolt, Bolt)
        checks.check_bolt(id, bolt)
        return self._components.add_bolt(id, bolt, parallelism, is_committer=isinstance(bolt, Committer))

    def set_committer_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt as a committer: its `finish_batch` is called in the commit phase.

        `bolt` is a `BaseBatchBolt` or a `BaseStatefulBolt`, with or without the marker `Committer`. Otherwise like
        `set_bolt`.
        """
        self._components.check_new(id, bolt, Bolt)
        checks.check_committer(id, bolt)
        return self._components.add_bolt(id, bolt, parallelism, is_committer=True)

    def build_topology(self) -> Topology:
        """Check the whole graph and return it.

        Raises:
            TopologyError: There is no bolt; a stream has no field for the attempt; a bolt sets tick tuples, which a
                transactional topology does not have; a bolt has no input, takes an unknown stream, groups by an
                undeclared field, or combines a direct stream with another grouping than direct grouping, or the
                reverse; bolts form a cycle; or the spout, a bolt or a custom grouping cannot be pickled.
        """
        topology = self._components.topology(self._name)
        for spec in topology.components.values():
            checks.check_declaration(spec)
        return topology
