"""Checks of a topology's graph. Each raises `TopologyError` with the name of the offending component and the fix."""

import copy
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import Any

import cloudpickle

from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.bolts.batch import BaseBatchBolt, Committer
from anchorbolt.bolts.sink import DataFrameSink
from anchorbolt.config.declaration import SECONDS
from anchorbolt.config.settings import TICK_SECS
from anchorbolt.errors import TopologyError
from anchorbolt.serialization.codecs import FIRST_VERSION, LAST_VERSION
from anchorbolt.spouts.base import BaseRichSpout, Spout
from anchorbolt.spouts.spark_ranges import SparkTransactionalSpout
from anchorbolt.spouts.transactional import BatchSpout
from anchorbolt.topology.graph import BoltSpec, Component, Input
from anchorbolt.util.messages import did_you_mean, shortened
from anchorbolt.windows.by_key import WindowsByKey, problem_with

Specs = Mapping[str, Component]


def check_instance(id: str, candidate: object, kind: type[Spout] | type[Bolt]) -> None:
    if isinstance(candidate, kind):
        return
    wanted = kind.__name__.lower()
    given = type(candidate).__name__
    if isinstance(candidate, type) and issubclass(candidate, kind):
        problem = f"{candidate.__name__} is a class. Pass {candidate.__name__}(), not {candidate.__name__}."
    elif isinstance(candidate, Spout | Bolt):
        other = "bolt" if wanted == "spout" else "spout"
        problem = f"a {given} is a {other}. Add it with set_{other}."
    else:
        problem = f"{candidate!r}, of type {given}, is not a {wanted}. Extend a class of anchorbolt.{wanted}s."
    raise TopologyError(f"{wanted} {id!r}: {problem}", component=id)


def refuse_transactional(id: str, component: Spout | Bolt) -> None:
    """Refuse a component that only a transactional topology can run."""
    if isinstance(component, BatchSpout | BaseBatchBolt | Committer):
        kind = "spout" if isinstance(component, Spout) else "bolt"
        raise TopologyError(
            f"{kind} {id!r}: a {type(component).__name__} processes batches of transactions. It belongs in a "
            "TransactionalTopologyBuilder.",
            component=id,
        )


def check_parallelism(id: str, parallelism: object) -> None:
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
        raise TopologyError(
            f"component {id!r}: parallelism is {parallelism!r}. Pass a whole number of tasks, at least 1.", component=id
        )


def tick_secs_of(id: str, bolt: Bolt) -> float | None:
    """Return the time between a bolt's tick tuples; None if the bolt does not set it."""
    configuration: object = bolt.get_component_configuration()
    if not isinstance(configuration, Mapping) or not set(configuration) <= {TICK_SECS}:
        raise TopologyError(
            f"bolt {id!r}: its get_component_configuration returned {shortened(configuration)}. Return a mapping; a "
            f"bolt can set {TICK_SECS}, and nothing else.",
            component=id,
        )
    seconds: float | None = configuration.get(TICK_SECS)
    if seconds is not None and not SECONDS.fits(seconds):
        raise TopologyError(
            f"bolt {id!r}: its {TICK_SECS} is {shortened(seconds)}. Set {SECONDS.must_be}.", component=id
        )
    return seconds


def check_graph(specs: Specs) -> None:
    """Check the components and their connections, but not for cycles: `topological_order` finds those."""
    bolts = [spec for spec in specs.values() if isinstance(spec, BoltSpec)]
    for kind, number in (("spout", len(specs) - len(bolts)), ("bolt", len(bolts))):
        if not number:
            raise TopologyError(f"the topology has no {kind}. Add one with set_{kind}.")
    for bolt in bolts:
        _check_schema_version(bolt)
        if not bolt.inputs:
            raise _refusal(bolt, "takes no stream. Declare an input, as in .shuffle_grouping('component').")
        for each in bolt.inputs:
            _check_input(bolt, each, specs)
            _check_event_time(bolt, each, specs)
        _check_inputs(bolt, specs)
        if isinstance(bolt.bolt, WindowsByKey):
            problem = problem_with(bolt.bolt, [each.grouping for each in bolt.inputs], bolt.streams)
            if problem:
                raise _refusal(bolt, problem)


def topological_order(sources: Mapping[str, Collection[str]]) -> list[str]:
    """Return the ids, each after all its sources and otherwise in the order of the keys of `sources`.

    Raises `TopologyError` if the components form a cycle.
    """
    try:
        TopologicalSorter(sources).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        raise TopologyError(
            f"the components form a cycle: {' -> '.join(cycle)}. Remove one of these groupings: a topology has no "
            "cycles.",
            component=cycle[0],
        ) from None
    remaining, order = list(sources), list[str]()
    while remaining:
        following = next(id for id in remaining if set(sources[id]) <= set(order))
        remaining.remove(following)
        order.append(following)
    return order


def check_exclusive(topology: str, specs: Iterable[Component]) -> None:
    """Check that no two sinks use a resource that only one may use."""
    users: dict[str, str] = {}
    for spec in specs:
        if isinstance(spec, BoltSpec) and isinstance(spec.bolt, DataFrameSink):
            for used in spec.bolt.exclusive(topology, spec.id):
                other = users.setdefault(used, spec.id)
                if other != spec.id:
                    raise _refusal(spec, f"uses {used}, and so does {other!r}. Give each sink its own.")


def check_picklable(specs: Iterable[Component], *, may_copy: bool = True) -> None:
    """Check bolts with their custom groupings, rich spouts and batch spouts. Other spouts need not be picklable.

    With `may_copy`, it is enough for a rich spout that it can be copied.
    """
    for spec in specs:
        opened_in = "prepare"
        if isinstance(spec, BoltSpec):
            customs = [each.grouping.custom for each in spec.inputs if each.grouping.custom is not None]
            candidates = [(spec.id, spec.bolt), *((type(each).__name__, each) for each in customs)]
        elif isinstance(spec.spout, BatchSpout) and not isinstance(spec.spout, SparkTransactionalSpout):
            candidates, opened_in = [(spec.id, spec.spout)], "emitter or coordinator"
        elif isinstance(spec.spout, BaseRichSpout):
            candidates, opened_in = [(spec.id, spec.spout)], "open"
            if may_copy:
                with suppress(Exception):  # its copies stay in this process, so its class need not be picklable
                    copy.deepcopy(spec.spout)
                    continue
        else:
            continue
        for name, candidate in candidates:
            error = _pickling_error(candidate)
            if error is not None:
                culprit, kind, error = _unpicklable(name, candidate, error)
                reason = (str(error).splitlines() or [""])[0]
                raise _refusal(
                    spec,
                    f"cannot be pickled, because of {culprit}, of type {kind.__module__}.{kind.__qualname__} "
                    f"({type(error).__name__}: {reason}). Open it in {opened_in}: the object is pickled for the tasks.",
                )


def _unpicklable(name: str, value: object, error: Exception) -> tuple[str, type, Exception]:
    """Return the attribute of an object that cannot be pickled, its type and the error; or the object itself."""
    with suppress(Exception):  # a user's __getstate__ may raise anything
        state: Any = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
        for attribute, held in state.items():
            of_attribute = _pickling_error(held)
            if of_attribute is not None:
                return f"{name}.{attribute}", type(held), of_attribute
    return name, type(value), error


def _pickling_error(value: object) -> Exception | None:
    try:
        cloudpickle.dumps(value)
    except Exception as error:  # a user's __reduce__ or __getstate__ may raise anything
        return error
    return None


def _check_schema_version(bolt: BoltSpec) -> None:
    if isinstance(bolt.bolt, BaseStatefulBolt):
        version: object = bolt.bolt.state_schema_version
        if type(version) is not int or not FIRST_VERSION <= version <= LAST_VERSION:
            raise _refusal(
                bolt,
                f"has state_schema_version {version!r}. Set a whole number from {FIRST_VERSION} to {LAST_VERSION}.",
            )


def _check_input(bolt: BoltSpec, each: Input, specs: Specs) -> None:
    (component, stream), grouping = each
    if component not in specs:
        raise _refusal(
            bolt,
            f"takes stream {stream!r} of {component!r}, but there is no such component."
            f"{did_you_mean(component, specs)} The topology has: {', '.join(specs)}.",
        )
    streams = specs[component].streams
    if stream not in streams:
        declared = f"It declares: {', '.join(streams)}." if streams else "It declares none."
        raise _refusal(
            bolt,
            f"takes stream {stream!r} of {component!r}, which does not declare it.{did_you_mean(stream, streams)} "
            f"{declared} Streams are declared in declare_output_fields.",
        )
    declaration = streams[stream]
    if grouping.name == "direct" and not declaration.direct:
        raise _refusal(
            bolt,
            f"takes stream {stream!r} of {component!r} by direct grouping, but the stream is not direct. Declare it "
            "with direct=True, or take it by another grouping.",
        )
    if declaration.direct and grouping.name != "direct":
        raise _refusal(
            bolt,
            f"takes the direct stream {stream!r} of {component!r} by {grouping}, but its emitter names the task of "
            "each tuple. Take it by direct_grouping, or declare it without direct=True.",
        )
    for field in grouping.fields:
        if field not in declaration.fields:
            raise _refusal(
                bolt,
                f"groups stream {stream!r} of {component!r} by field {field!r}, which it does not declare."
                f"{did_you_mean(field, declaration.fields)} Its fields are: {', '.join(declaration.fields) or 'none'}.",
            )


def _check_event_time(bolt: BoltSpec, each: Input, specs: Specs) -> None:
    field, (component, stream) = bolt.time.event_time, each.source
    fields = specs[component].streams[stream].fields
    if field is not None and field not in fields:
        raise _refusal(
            bolt,
            f"has event_time {field!r}, which stream {stream!r} of {component!r} does not declare."
            f"{did_you_mean(field, fields)} Its fields are: {', '.join(fields) or 'none'}.",
        )


def _check_inputs(bolt: BoltSpec, specs: Specs) -> None:
    sources = [each.source for each in bolt.inputs]
    try:
        bolt.bolt.check_inputs(
            {(component, stream): specs[component].streams[stream].fields for component, stream in sources}
        )
    except TopologyError as error:
        raise _refusal(bolt, error.message) from None


def _refusal(spec: Component, message: str) -> TopologyError:
    kind = "bolt" if isinstance(spec, BoltSpec) else "spout"
    return TopologyError(f"{kind} {spec.id!r} {message}", component=spec.id)
