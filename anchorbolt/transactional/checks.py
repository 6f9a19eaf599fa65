"""Checks the components of a transactional topology. Each check raises `TopologyError` with the id and the fix."""

from __future__ import annotations

import inspect

from anchorbolt.bolts.base import BaseBasicBolt, BaseRichBolt, BaseStatefulBolt, Bolt
from anchorbolt.bolts.batch import BaseBatchBolt, Committer
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.config.settings import TICK_SECS
from anchorbolt.errors import TopologyError
from anchorbolt.spouts.base import Spout
from anchorbolt.spouts.transactional import KINDS, BatchSpout, kind_of
from anchorbolt.topology.graph import BoltSpec, Component

_BOLTS = (BaseBasicBolt, BaseBatchBolt, BaseStatefulBolt, DataFrameSink)
_COMMITTERS = (BaseBatchBolt, BaseStatefulBolt)

_PREPARE: tuple[tuple[type[Bolt], tuple[str, ...], str], ...] = (
    (
        BaseBatchBolt,
        ("conf", "context", "collector", "id"),
        "The last one is the attempt at the batch that the new instance is for.",
    ),
    (
        BaseStatefulBolt,
        ("conf", "context", "collector"),
        "Unlike a BaseBatchBolt it gets no id, because an instance serves many batches. Take the attempt from the "
        "tuples: tup[0].",
    ),
    (BaseBasicBolt, ("conf", "context"), "Its execute gets the collector."),
)
"""For each kind of bolt: the arguments of its `prepare`, and a hint for the error message."""


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
    if isinstance(bolt, BaseRichBolt) or not isinstance(bolt, _BOLTS):
        raise _refusal(
            id,
            f"{_name(bolt)} cannot process batches of transactions. Extend BaseBatchBolt or BaseBasicBolt: the "
            "framework acks their tuples.",
        )
    extended = [kind.__name__ for kind in _BOLTS if isinstance(bolt, kind)]
    if len(extended) > 1:
        raise _refusal(
            id,
            f"{_name(bolt)} extends {' and '.join(extended)}. Extend only one of them. A committer with state extends "
            "BaseStatefulBolt and Committer.",
        )


def _check_prepare(id: str, bolt: Bolt) -> None:
    if not isinstance(bolt, BaseBatchBolt | BaseStatefulBolt | BaseBasicBolt):
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
