"""Checks of a topology's graph. Each raises `TopologyError` with the name of the offending component and the fix."""

from collections.abc import Iterable, Mapping

from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.errors import TopologyError
from anchorbolt.serialization.schema import FIRST_VERSION, LAST_VERSION
from anchorbolt.spouts.base import Spout
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.streams.groupings import CustomGrouping, DirectGrouping, KeyGrouping
from anchorbolt.topology.graph import BoltSpec, Component, Input, SpoutSpec
from anchorbolt.topology.pickling import find_unpicklable
from anchorbolt.util.messages import did_you_mean

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


def check_parallelism(id: str, parallelism: object) -> None:
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
        raise TopologyError(
            f"component {id!r}: parallelism is {parallelism!r}. Pass a whole number of tasks, at least 1.", component=id
        )


def check_graph(specs: Specs) -> None:
    """Check the components and their connections, but not for cycles: `topological_order` finds those."""
    if not any(isinstance(spec, SpoutSpec) for spec in specs.values()):
        raise TopologyError("the topology has no spout. Add one with set_spout.")
    bolts = [spec for spec in specs.values() if isinstance(spec, BoltSpec)]
    if not bolts:
        raise TopologyError("the topology has no bolt. Add one with set_bolt.")
    for bolt in bolts:
        _check_schema_version(bolt)
        if not bolt.inputs:
            raise _refusal(bolt, "takes no stream. Declare an input, as in .shuffle_grouping('component').")
        for each in bolt.inputs:
            _check_fields(bolt, each, _checked_stream(bolt, each, specs))


def check_picklable(bolts: Iterable[BoltSpec]) -> None:
    for spec in bolts:
        objects: list[tuple[str, object]] = [(spec.id, spec.bolt)]
        for each in spec.inputs:
            if isinstance(each.grouping, CustomGrouping):
                implementation = each.grouping.implementation
                objects.append((type(implementation).__name__, implementation))
        for name, candidate in objects:
            culprit = find_unpicklable(name, candidate)
            if culprit is not None:
                raise _refusal(
                    spec,
                    f"cannot be pickled, because of {culprit.path}, of type {culprit.type_name} ({culprit.reason}). "
                    "Open it in prepare: the object is pickled for the bolt's tasks.",
                )


def _check_schema_version(bolt: BoltSpec) -> None:
    if isinstance(bolt.bolt, BaseStatefulBolt):
        version: object = bolt.bolt.state_schema_version
        if type(version) is not int or not FIRST_VERSION <= version <= LAST_VERSION:
            raise _refusal(
                bolt,
                f"has state_schema_version {version!r}. Set a whole number from {FIRST_VERSION} to {LAST_VERSION}.",
            )


def _checked_stream(bolt: BoltSpec, each: Input, specs: Specs) -> StreamDeclaration:
    component, stream = each.source
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
    return streams[stream]


def _check_fields(bolt: BoltSpec, each: Input, declaration: StreamDeclaration) -> None:
    (component, stream), grouping = each
    if isinstance(grouping, DirectGrouping) and not declaration.direct:
        raise _refusal(
            bolt,
            f"takes stream {stream!r} of {component!r} by direct grouping, but the stream is not direct. Declare it "
            "with direct=True, or take it by another grouping.",
        )
    if declaration.direct and not isinstance(grouping, DirectGrouping):
        raise _refusal(
            bolt,
            f"takes the direct stream {stream!r} of {component!r} by {grouping}, but its emitter names the task of "
            "each tuple. Take it by direct_grouping, or declare it without direct=True.",
        )
    if isinstance(grouping, KeyGrouping):
        for field in grouping.fields:
            if field not in declaration.fields:
                raise _refusal(
                    bolt,
                    f"groups stream {stream!r} of {component!r} by field {field!r}, which it does not declare."
                    f"{did_you_mean(field, declaration.fields)} Its fields are: "
                    f"{', '.join(declaration.fields) or 'none'}.",
                )


def _refusal(bolt: BoltSpec, message: str) -> TopologyError:
    return TopologyError(f"bolt {bolt.id!r} {message}", component=bolt.id)
