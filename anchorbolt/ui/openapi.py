"""The OpenAPI description of the REST API, derived from its routes and the types of its answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.json import schema_components

import anchorbolt
from anchorbolt.ui.actions import ACTIONS
from anchorbolt.ui.answers import Done, LookedUp, Ready, Refused, Summary
from anchorbolt.ui.lookups import MOST_KEY_CHARACTERS
from anchorbolt.ui.routes import ANSWERED, BASE, COMPONENT_STATE, Parameter

Json = dict[str, Any]


def description() -> Json:
    """Return the description, in OpenAPI 3.1."""
    types = [Summary, Ready, LookedUp, Done, Refused, *(each.answer for each in ANSWERED)]
    schemas, components = schema_components(types, ref_template="#/components/schemas/{name}")
    summary, ready, looked_up, done, refused, *answers = schemas
    paths: Json = {
        "/api/v1/topology/summary": _get("/", "The topology of this server.", summary),
        "/readyz": _get("/", "Whether the topology is healthy; the status is 503 if not.", ready),
        "/healthz": _get("/", "The process answers."),
        "/metrics": _get("/", "The metrics, for Prometheus."),
    }
    for each, schema in zip(ANSWERED, answers, strict=True):
        answer = {"anyOf": [schema, looked_up]} if each.path == COMPONENT_STATE else schema
        paths[BASE + each.path] = _get(BASE + each.path, each.text, answer, each.parameters)
    key = {"type": "string", "maxLength": MOST_KEY_CHARACTERS}
    text = "JSON, a Python literal, or plain text."
    paths[BASE + COMPONENT_STATE]["get"]["parameters"].append(_parameter("query", "key", text, key))
    for name, text in ACTIONS.items():
        paths[f"{BASE}/{name}"] = {
            "post": {
                "summary": f"{text} Needs --ui-actions and the token.",
                "parameters": _path_parameters(BASE),
                "security": [{"token": []}],
                "responses": {"200": _json("The run does it.", done)},
            }
        }
    for path in paths.values():
        for operation in path.values():
            operation["responses"]["default"] = _json("The request is refused.", refused)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Anchorbolt", "version": anchorbolt.__version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _get(path: str, text: str, schema: Json | None = None, parameters: Sequence[Parameter] = ()) -> Json:
    in_query = [_parameter("query", each.name, each.text, each.schema) for each in parameters]
    answer = {"description": text, "content": {"text/plain": {}}} if schema is None else _json(text, schema)
    return {"get": {"summary": text, "parameters": [*_path_parameters(path), *in_query], "responses": {"200": answer}}}


def _path_parameters(path: str) -> list[Json]:
    return [_parameter("path", name, "", {"type": "string"}) for name in re.findall(r"{(\w+)}", path)]


def _parameter(place: str, name: str, text: str, schema: Mapping[str, Any]) -> Json:
    return {"name": name, "in": place, "description": text, "required": place == "path", "schema": schema}


def _json(text: str, schema: Json) -> Json:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
