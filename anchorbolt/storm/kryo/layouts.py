"""The ids that Storm's serializers give to classes, which the bytes do not contain."""

from collections.abc import Callable, Mapping, Sequence

from anchorbolt.storm.kryo.kinds import ENUMS, kind_named
from anchorbolt.storm.kryo.object_reader import Kind, Layout
from anchorbolt.storm.wrapper import Generation

_BOXED = "Integer String Float Boolean Byte Character Short Long Double"  # in the order of their ids
_KRYO = tuple(f"java.lang.{name}" for name in _BOXED.split())
_OPTIONAL = "java.util.Optional"
_TUPLE = "org.apache.storm.tuple.TupleImpl"
_STORM_2 = (Generation.STORM_2_0, Generation.STORM_2_6)


def places_of(generation: Generation, in_topology: bool | None) -> tuple[bool, ...]:
    """Return where the bytes may have been written: in a topology, or outside of one, or both.

    Only Storm 2 numbers classes differently in a topology. None means that the place is not known.
    """
    return (True, False) if generation in _STORM_2 and in_topology is None else (bool(in_topology),)


def layout_of(
    generation: Generation,
    registered: Sequence[str],
    enums: Mapping[str, Sequence[str]],
    *,
    in_topology: bool,
    kinds: Callable[[str, Layout], Kind | None] = kind_named,
) -> Layout:
    """Return the layout of one serializer's streams. `in_topology` matters only for Storm 2.

    Kryo gives its own classes the ids 0 to 8 (in Kryo 3 and 4, 9 is void). The classes that Storm registers follow.
    Storm 1 registers the configured classes, in their order; Storm 2 sorts these and java.util.Optional by name, and in
    a topology puts Storm's TupleImpl before them. A class with an id gets no second id, so registering String or Long,
    as Storm's documentation does, changes nothing.
    """
    kryo_5 = generation is Generation.STORM_2_6
    own: list[str] = list(registered)
    if generation in _STORM_2:
        own = sorted({*own, _OPTIONAL}, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        own = [_TUPLE, *own] if in_topology else own
    new = [name for name in dict.fromkeys(own) if name not in _KRYO]
    kryo: tuple[str | None, ...] = _KRYO if kryo_5 else (*_KRYO, None)
    return Layout(kryo_5, (*kryo, *new), len(kryo), kinds, {**ENUMS, **enums})
