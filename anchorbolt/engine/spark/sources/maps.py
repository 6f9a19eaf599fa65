"""Converts Arrow's maps, which are lists of pairs, to dicts."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

_Convert = Callable[[Any], Any]


def with_dicts(kind: pa.DataType, values: list[Any]) -> list[Any]:
    """Return the values of a column of type `kind`, with a dict for each map, also for nested maps.

    A map with lists, structs or maps as keys stays a list of pairs: such keys are not hashable. A value that is not a
    list or dict is returned unchanged.
    """
    convert = _converter(kind)
    if convert is None:
        return values
    return [convert(value) if isinstance(value, list | dict) else value for value in values]


def _converter(kind: pa.DataType) -> _Convert | None:
    """Return a function that converts a value of a type; None if the type holds no map."""
    if pa.types.is_map(kind):
        return _of_map(kind)
    if pa.types.is_struct(kind):
        fields = {kind.field(number).name: _converter(kind.field(number).type) for number in range(kind.num_fields)}
        converted = {name: convert for name, convert in fields.items() if convert is not None}
        return _of_struct(converted) if converted else None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        item = _converter(kind.value_type)
        return None if item is None else _of_list(item)
    return None


def _of_map(kind: pa.MapType) -> _Convert:
    item = _converter(kind.item_type) or _same
    if pa.types.is_nested(kind.key_type):
        return lambda pairs: None if pairs is None else [(key, item(value)) for key, value in pairs]
    return lambda pairs: None if pairs is None else {key: item(value) for key, value in pairs}


def _of_struct(converted: dict[str, _Convert]) -> _Convert:
    def convert(fields: dict[str, Any] | None) -> dict[str, Any] | None:
        if fields is None:
            return None
        return fields | {name: convert(fields[name]) for name, convert in converted.items()}

    return convert


def _of_list(item: _Convert) -> _Convert:
    return lambda items: None if items is None else [item(each) for each in items]


def _same(value: Any) -> Any:
    return value
