"""The values that Storm stored, as immutable objects that keep all information of the bytes.

Each value has a typed form for JSON (docs/storm_bytes.md) and a short text for people. Kryo writes an object once and
refers to it later: such an object is one Python object, and appears in the JSON form as often as it occurs. So compare
objects by `is` to find out what was shared.
"""

import base64
import datetime as dt
import math
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator
from ctypes import c_double, c_float
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from anchorbolt.util.values import OwnForm

_EPOCH = dt.datetime(1970, 1, 1)
_LONGEST_TEXT = 200
_BRACKETS = {"set": ("{", "}"), "map": ("{", "}"), "optional": ("Optional(", ")")}  # of others [ and ]
_STRING_CLASS = "java.lang.String"


class JavaValue(OwnForm):
    """A Java value that Storm stored."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the typed form: plain dicts, lists, strings, numbers and booleans (docs/storm_bytes.md)."""

    def describe(self, limit: int = _LONGEST_TEXT) -> str:
        """Return the first `limit` characters of the text for people. Values of two types may have the same text."""
        text = ""
        for fragment in self.fragments():
            text += fragment[: limit + 1]
            if len(text) > limit:
                return text[:limit] + "…"
        return text

    def __str__(self) -> str:
        return self.describe()

    @abstractmethod
    def fragments(self) -> Iterator[str]:
        """Yield the text in fragments, so that `describe` can stop early in a large collection."""


@dataclass(frozen=True)
class JavaScalar(JavaValue):
    """A value without inner values; `tag` is `t` of the JSON form and sets the meaning of the other fields."""

    tag: str
    # A char's code, a float's or double's IEEE 754 bits, an enum constant's name if known. Of a cycle: how many objects
    # that contain it are inside the collection that it stands for.
    value: Any = None
    class_name: str = ""  # of strings, enum constants and objects
    detail: Any = None  # a BigDecimal's scale, an enum constant's ordinal, a checkpoint's state

    def to_json(self) -> dict[str, Any]:
        content = _CONTENTS.get(self.tag)
        return {"t": self.tag, **({"v": str(self.value)} if content is None else content(self))}

    def fragments(self) -> Iterator[str]:
        text = _TEXTS.get(self.tag)
        yield str(self.value) if text is None else text(self)


class Tombstone(JavaScalar):
    """Storm's mark for a deleted key: not a value."""

    def __init__(self) -> None:
        super().__init__("tombstone")


NULL = JavaScalar("null")


@dataclass(frozen=True)
class JavaCollection(JavaValue):
    """A list, queue, set, array, map or java.util.Optional, with its items in the order in which Storm wrote them."""

    kind: str  # list (also of queues), set, array, map or optional
    class_name: str  # in Java's notation: also `[I` or `[Ljava.lang.String;`
    items: tuple[JavaValue, ...]  # in a map keys and values alternate
    # The comparator of a sorted collection, or the class that an EnumSet names. Only some releases of Kryo keep it.
    detail: Any = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:
        items: list[Any] = [item.to_json() for item in self.items]
        if self.kind == "optional":
            return {"t": self.kind, "v": items[0] if items else NULL.to_json(), "present": bool(items)}
        if self.kind == "map":
            items = [list(pair) for pair in zip(items[::2], items[1::2], strict=True)]
        return {"t": self.kind, "class": self.class_name, "v": items}

    def fragments(self) -> Iterator[str]:
        start, end = _BRACKETS.get(self.kind, ("[", "]"))
        yield start
        for number, item in enumerate(self.items):
            if number:
                yield ": " if self.kind == "map" and number % 2 else ", "
            yield from item.fragments()
        yield end


def is_constant(value: JavaValue) -> bool:
    """Return whether Java has only one object that is equal to this one: an enum constant, an empty list of Java's."""
    if isinstance(value, JavaCollection):
        return value.class_name.startswith("java.util.Collections$Empty")
    return isinstance(value, JavaScalar) and value.tag in ("enum", "object")


def _string_content(scalar: JavaScalar) -> dict[str, Any]:
    is_plain = scalar.class_name == _STRING_CLASS
    return {"v": scalar.value} if is_plain else {"v": scalar.value, "class": scalar.class_name}


def _decimal_text(scalar: JavaScalar) -> str:
    digits = tuple(map(int, str(abs(scalar.value))))
    return str(Decimal((int(scalar.value < 0), digits, -scalar.detail)))  # as BigDecimal.toString()


def _date_text(scalar: JavaScalar) -> str:
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=scalar.value)
    except OverflowError:  # Java's dates reach further than Python's
        return f"{scalar.value} ms since 1970"
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def _enum_text(scalar: JavaScalar) -> str:
    return f"{scalar.class_name}.{scalar.value}" if scalar.value else f"{scalar.class_name}#{scalar.detail}"


def _float_text(scalar: JavaScalar) -> str:
    """Return the shortest text, with at least two digits, that reads back as the same number, in Java's notation."""
    single = scalar.tag == "float"
    layout, size, ctype = (">f", 4, c_float) if single else (">d", 8, c_double)
    number: float = struct.unpack(layout, scalar.value.to_bytes(size, "big"))[0]
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    texts = (f"{number:.{digits}e}" for digits in range(1, 17))
    mantissa, _, exponent = next(text for text in texts if ctype(float(text)).value == number).partition("e")
    if -4 < int(exponent) < 7:
        text = f"{Decimal(f'{mantissa}e{exponent}').normalize():f}"
        return text if "." in text else f"{text}.0"
    mantissa = mantissa.rstrip("0")
    return f"{mantissa}{'0' if mantissa.endswith('.') else ''}E{int(exponent)}"


_TEXTS: dict[str, Callable[[JavaScalar], str]] = {
    "null": lambda _: "null",
    "tombstone": lambda _: "(deleted)",
    "cycle": lambda _: "(cycle)",
    "string": lambda scalar: repr(scalar.value[:10_000]),
    "boolean": lambda scalar: "true" if scalar.value else "false",
    "char": lambda scalar: repr(chr(scalar.value)),
    "float": _float_text,
    "double": _float_text,
    "bytes": lambda scalar: f"bytes[{len(scalar.value)}] {scalar.value[:1000].hex()}",
    "bigdecimal": _decimal_text,
    "date": _date_text,
    "enum": _enum_text,
    "object": lambda scalar: f"{scalar.class_name}()",
    "checkpointstate": lambda scalar: f"{scalar.detail} {scalar.value}",
}

_CONTENTS: dict[str, Callable[[JavaScalar], dict[str, Any]]] = {
    **dict.fromkeys(("null", "tombstone", "cycle"), lambda _: {}),
    "string": _string_content,
    "boolean": lambda scalar: {"v": scalar.value},
    "char": lambda scalar: {"v": chr(scalar.value), "code": scalar.value},
    "float": lambda scalar: {"v": _float_text(scalar), "bits": f"{scalar.value:08x}"},
    "double": lambda scalar: {"v": _float_text(scalar), "bits": f"{scalar.value:016x}"},
    "bytes": lambda scalar: {"v": base64.b64encode(scalar.value).decode()},
    "bigdecimal": lambda scalar: {"v": _decimal_text(scalar), "unscaled": str(scalar.value), "scale": scalar.detail},
    "enum": lambda scalar: {"class": scalar.class_name, "v": scalar.value, "ordinal": scalar.detail},
    "object": lambda scalar: {"class": scalar.class_name, "fields": {}},
    "checkpointstate": lambda scalar: {"txid": str(scalar.value), "state": scalar.detail},
}
