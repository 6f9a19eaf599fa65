"""Maps the class ids of a generation to classes, and classes to their readers.

Kryo gives its own classes the ids 0 to 8 (in Kryo 3 and 4, 9 is void). The classes that Storm registers follow; Storm's
serializers for keys and for values each number their own:

    1.0 - 1.2   the classes of the configuration, in its order
    2.0 - 2.8   these and java.util.Optional, sorted by name; in a topology Storm's TupleImpl comes before them

A class that has an id already gets no second one. So registering String or Long, as Storm's documentation does, changes
nothing.
"""

from collections.abc import Mapping, Sequence

from anchorbolt.storm.kryo.containers import CONTAINERS, OPEN_TYPES, array_kind
from anchorbolt.storm.kryo.object_reader import MAX_DEPTH, Kind, Layout
from anchorbolt.storm.kryo.scalars import ENUMS, FINAL_ENUMS, PRIMITIVES, SCALARS, enum_class_of, enum_kind
from anchorbolt.storm.wrapper import Generation

_BOXED = "Integer String Float Boolean Byte Character Short Long Double"  # in the order of their ids
_KRYO = tuple(f"java.lang.{name}" for name in _BOXED.split())
_OPTIONAL = "java.util.Optional"
_TUPLE = "org.apache.storm.tuple.TupleImpl"
_STORM_2 = (Generation.STORM_2_0, Generation.STORM_2_6)


def layout_of(
    generation: Generation, registered: Sequence[str], enums: Mapping[str, Sequence[str]], *, in_topology: bool
) -> Layout:
    """Return the layout of one serializer's streams. `in_topology` matters only for Storm 2."""
    kryo_5 = generation is Generation.STORM_2_6
    own: list[str] = list(registered)
    if generation in _STORM_2:
        own = sorted({*own, _OPTIONAL}, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        own = [_TUPLE, *own] if in_topology else own
    new = [name for name in dict.fromkeys(own) if name not in _KRYO]
    kryo: tuple[str | None, ...] = _KRYO if kryo_5 else (*_KRYO, None)
    return Layout(kryo_5, (*kryo, *new), len(kryo), _kind_named, {**ENUMS, **enums})


def _kind_named(class_name: str, layout: Layout) -> Kind | None:
    kind = SCALARS.get(class_name) or CONTAINERS.get(class_name)
    if kind is not None:
        return kind
    if class_name.startswith("["):
        return _array(class_name, layout)
    constants = layout.enums.get(enum_class_of(class_name))
    return None if constants is None else enum_kind(class_name, constants)


def _array(class_name: str, layout: Layout) -> Kind | None:
    element = class_name[1:]
    if element in PRIMITIVES:
        return array_kind(class_name, None)
    if element.startswith("["):
        # Java nests arrays up to 255 deep. Deeper than MAX_DEPTH they are refused anyway.
        inner = _kind_named(element, layout) if not class_name.startswith("[" * MAX_DEPTH) else None
        return None if inner is None else array_kind(class_name, inner)
    if not (element.startswith("L") and element.endswith(";")):
        return None
    type_name = element[1:-1]
    if type_name in OPEN_TYPES:
        return array_kind(class_name, None)
    if type_name in FINAL_ENUMS:
        return array_kind(class_name, enum_kind(type_name, layout.enums[type_name]))
    # An array of a user's enum cannot be read: it names each element's class only if a constant has a body.
    kind = SCALARS.get(type_name) or CONTAINERS.get(type_name)
    return None if kind is None else array_kind(class_name, kind if kind.final else None)
