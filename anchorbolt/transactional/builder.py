"""`TransactionalTopologyBuilder`, which makes topologies that process batches as transactions."""

from __future__ import annotations

import inspect

from anchorbolt.bolts.arrow import BaseArrowBolt, BaseStatefulArrowBolt
from anchorbolt.bolts.base import BaseBasicBolt, BaseRichBolt, BaseStatefulBolt, Bolt
from anchorbolt.bolts.batch import BaseBatchBolt, Committer
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.config.settings import TICK_SECS
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.transactional import KINDS, BatchSpout, kind_of
from anchorbolt.streams.declaration import ATTEMPT_FIELD, check_name
from anchorbolt.topology.components import BoltDeclarer, Components
from anchorbolt.topology.graph import BoltSpec, Component, Topology
from anchorbolt.windows.interval_join import IntervalJoin
from anchorbolt.windows.ready_made import RollingCount, TopN

_BOLTS = (BaseBasicBolt, BaseBatchBolt, BaseStatefulBolt, BaseArrowBolt, DataFrameSink)
_WITHOUT_ATTEMPT: tuple[type[Bolt], ...] = (RollingCount, TopN)
_COMMITTERS = (BaseBatchBolt, BaseStatefulBolt)

_PREPARE: tuple[tuple[type[Bolt], tuple[str, ...], str], ...] = (
    (
        BaseBatchBolt,
        ("conf", "context", "collector", "id"),
        "The last one is the attempt at the batch that the new instance is for.",
    ),
    (BaseArrowBolt, ("conf", "context"), "Its execute_batch gets the collector."),
    (
        BaseStatefulBolt,
        ("conf", "context", "collector"),
        "Unlike a BaseBatchBolt it gets no id, because an instance serves many batches. Take the attempt from the "
        "tuples: tup[0].",
    ),
    (BaseBasicBolt, ("conf", "context"), "Its execute gets the collector."),
)
"""For each kind of bolt: the arguments of its `prepare`, and a hint for the error message."""


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
        self._components = Components(attempt_field=ATTEMPT_FIELD)
        self._components.check_new(spout_id, spout, Spout)
        check_spout(spout_id, spout)
        self._components.add_spout(spout_id, spout, parallelism)

    def set_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt, and return the declarer of its inputs. Calls its `declare_output_fields`.

        Args:
            id: A unique component id. It is part of the name under which a stateful bolt's state is stored.
            bolt: A `BaseBasicBolt`, a `BaseArrowBolt`, a `BaseBatchBolt`, a `DataFrameSink`, or a `BaseStatefulBolt` or
                `BaseStatefulArrowBolt` with the marker `Committer`. A batch bolt with this marker is a committer, too.
                The bolt is pickled when the topology is created.
            parallelism: The number of its tasks.

        Raises:
            TopologyError: The id is invalid, reserved or taken; `bolt` is not such a bolt; its `prepare` cannot take
                its arguments; the parallelism is not an int of at least 1; `declare_output_fields` raised; or
                `get_component_configuration` returned an unknown setting.
        """
        self._components.check_new(id, bolt, Bolt)
        check_bolt(id, bolt)
        return self._components.add_bolt(id, bolt, parallelism, is_committer=isinstance(bolt, Committer))

    def set_committer_bolt(self, id: str, bolt: Bolt, parallelism: int = 1) -> BoltDeclarer:
        """Add a bolt as a committer: its `finish_batch` is called in the commit phase.

        `bolt` is a `BaseBatchBolt` or a `BaseStatefulBolt`, with or without the marker `Committer`. Otherwise like
        `set_bolt`.
        """
        self._components.check_new(id, bolt, Bolt)
        check_committer(id, bolt)
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
            check_declaration(spec)
        return topology


def check_spout(id: str, spout: Spout) -> None:
    """Check that the spout is one of the four kinds that emit batches."""
    if kind_of(spout) is None:
        kinds = " or ".join(kind.__name__ for kind in KINDS)
        name = type(spout).__name__
        raise TopologyError(
            f"spout {id!r}: a {name} has no coordinator. Extend {kinds}."
            if isinstance(spout, BatchSpout)
            else f"spout {id!r}: a {name} does not emit batches of transactions. An ordinary spout belongs in a "
            f"TopologyBuilder; for a transactional topology extend {kinds}.",
            component=id,
        )


def check_bolt(id: str, bolt: Bolt) -> None:
    """Check a bolt that is added with `set_bolt`."""
    if isinstance(bolt, Committer):
        check_committer(id, bolt)
        return
    _check_kind(id, bolt)
    if isinstance(bolt, BaseStatefulBolt):
        raise _refusal(
            id,
            f"{_name(bolt)} is stateful, and its state is checkpointed in the commit phase. Add it with "
            "set_committer_bolt, or extend Committer beside BaseStatefulBolt.",
        )
    _check_prepare(id, bolt)


def check_committer(id: str, bolt: Bolt) -> None:
    """Check a bolt that is added with `set_committer_bolt`, or that has the marker."""
    _check_kind(id, bolt)
    if not isinstance(bolt, _COMMITTERS):
        raise _refusal(
            id,
            f"{_name(bolt)} cannot be a committer, because it has no finish_batch. Extend BaseBatchBolt or "
            "BaseStatefulBolt, or add it with set_bolt, without the marker Committer.",
        )
    _check_prepare(id, bolt)


def check_declaration(spec: Component) -> None:
    """Check that each stream has a field for the attempt, and that there are no tick tuples."""
    kind = "bolt" if isinstance(spec, BoltSpec) else "spout"
    bolt = spec.bolt if isinstance(spec, BoltSpec) else None
    for ready_made in _WITHOUT_ATTEMPT:
        if isinstance(bolt, ready_made) and type(bolt).declare_output_fields is ready_made.declare_output_fields:
            raise _refusal(
                spec.id,
                f"{_name(bolt)} declares no field for the attempt at a batch. Extend it, and override "
                f"declare_output_fields: declare {ATTEMPT_FIELD!r} before its own fields.",
            )
    for name, stream in spec.streams.items():
        if not stream.fields and not (isinstance(spec, BoltSpec) and spec.is_sink):
            raise TopologyError(
                f"{kind} {spec.id!r}: stream {name!r} has no field. The first value of each tuple is the attempt at "
                "its batch: declare a field for it, such as 'tx', before all others.",
                component=spec.id,
            )
    if isinstance(spec, BoltSpec) and spec.tick_secs is not None:
        raise _refusal(
            spec.id,
            f"its get_component_configuration sets {TICK_SECS} to {spec.tick_secs}, but a transactional topology has "
            "no tick tuples. Remove the setting; finish_batch is called at the end of each batch.",
        )


def _check_kind(id: str, bolt: Bolt) -> None:
    if isinstance(bolt, IntervalJoin):
        raise _refusal(
            id,
            f"{_name(bolt)} cannot process batches of transactions: a row of tuples from two batches has no attempt. "
            "Join in a topology of a TopologyBuilder.",
        )
    if isinstance(bolt, BaseRichBolt) or not isinstance(bolt, _BOLTS):
        raise _refusal(
            id,
            f"{_name(bolt)} cannot process batches of transactions. Extend BaseBatchBolt, BaseBasicBolt or "
            "BaseArrowBolt: the framework acks their tuples.",
        )
    kinds: tuple[type[Bolt], ...] = _BOLTS
    if isinstance(bolt, BaseStatefulArrowBolt):
        kinds = tuple(kind for kind in kinds if kind is not BaseArrowBolt)
    extended = [kind.__name__ for kind in kinds if isinstance(bolt, kind)]
    if len(extended) > 1:
        raise _refusal(
            id,
            f"{_name(bolt)} extends {' and '.join(extended)}. Extend only one of them. A committer with state extends "
            "BaseStatefulBolt and Committer.",
        )


def _check_prepare(id: str, bolt: Bolt) -> None:
    if not isinstance(bolt, BaseBatchBolt | BaseStatefulBolt | BaseArrowBolt | BaseBasicBolt):
        return  # a sink has no prepare
    kind, arguments, hint = next(each for each in _PREPARE if isinstance(bolt, each[0]))
    try:
        signature = inspect.signature(bolt.prepare)
    except (TypeError, ValueError):  # a callable that does not show its arguments
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise _refusal(
            id,
            f"prepare{signature} of {type(bolt).__name__} does not take its arguments ({error}). The prepare of a "
            f"{kind.__name__} gets ({', '.join(arguments)}). {hint}",
        ) from None


def _name(bolt: Bolt) -> str:
    return f"a {type(bolt).__name__}"


def _refusal(id: str, message: str) -> TopologyError:
    return TopologyError(f"bolt {id!r}: {message}", component=id)
