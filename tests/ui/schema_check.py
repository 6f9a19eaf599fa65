"""Checks a value against the few keywords of JSON Schema that the description uses."""

from __future__ import annotations

import re
from typing import Any

TYPES: dict[str, Any] = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "null": type(None)}


def problems(value: Any, schema: dict[str, Any], where: str = "$") -> list[str]:
    if "anyOf" in schema:
        found = [problems(value, each, where) for each in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{where}: {value!r} is none of {schema['enum']}"]
    kind = schema.get("type")
    if kind == "array":
        if not isinstance(value, list):
            return [f"{where} is not a list"]
        return [each for n, item in enumerate(value) for each in problems(item, schema["items"], f"{where}[{n}]")]
    if kind == "object":
        return _of_object(value, schema, where)
    if kind is not None and (not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool))):
        return [f"{where}: {value!r} is not of type {kind}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return [f"{where}: {value!r} does not match"]
    return []


def _of_object(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is not an object"]
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    found = [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, item in value.items():
        if name in properties:
            found += problems(item, properties[name], f"{where}.{name}")
        elif others is False:
            found.append(f"{where}: {name} is not described")
        else:
            found += problems(item, others, f"{where}.{name}")
    return found
