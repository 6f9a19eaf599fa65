"""The OpenAPI description of the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anchorbolt
from anchorbolt.ui import schemas
from anchorbolt.ui.actions import ACTIONS
from anchorbolt.ui.lookups import MOST_KEY_CHARACTERS
from anchorbolt.ui.model.component import MOST_TASKS, SORTS
from anchorbolt.ui.model.observation import ALL_WINDOWS
from anchorbolt.ui.model.topology import DEFAULT_WINDOW
from anchorbolt.ui.model.waves import MOST_WAVES

Json = dict[str, Any]

_TOPOLOGY = "/api/v1/topology/{id}"


def description() -> Json:
    """Return the description, in OpenAPI 3.1."""
    paths: Json = {
        "/api/v1/topology/summary": _get("The topology of this server.", schemas.SUMMARY),
        _TOPOLOGY: _get(
            "The topology, its spouts and its bolts over a window.", schemas.TOPOLOGY, [_ID, _WINDOW, _SYS]
        ),
        f"{_TOPOLOGY}/component/{{component}}": _get(
            "A component with its tasks, page by page.",
            schemas.COMPONENT,
            [_ID, _path("component"), _WINDOW, _FIRST, _COUNT, _SORT],
        ),
        f"{_TOPOLOGY}/graph": _get("Components and streams, with their rates.", schemas.GRAPH, [_ID, _WINDOW]),
        f"{_TOPOLOGY}/state": _get("The sizes of the committed states.", schemas.STATE, [_ID]),
        f"{_TOPOLOGY}/state/{{component}}": _get(
            "The sizes of a component's tasks, page by page; with a key, its committed values.",
            schemas.COMPONENT_STATE,
            [_ID, _path("component"), _FIRST, _COUNT, _KEY],
        ),
        f"{_TOPOLOGY}/now": _get("The wave that runs now, and what it waits for.", schemas.NOW, [_ID]),
        f"{_TOPOLOGY}/waves": _get("The history of checkpoints, newest first.", schemas.WAVES, [_ID, _LAST, _FAILED]),
        f"{_TOPOLOGY}/waves/{{txid}}": _get("One wave, with its tasks.", schemas.WAVE, [_ID, _path("txid")]),
        f"{_TOPOLOGY}/failures": _get("What failed, newest first.", schemas.FAILURES, [_ID]),
        f"{_TOPOLOGY}/configuration": _get("The configuration, masked.", schemas.CONFIGURATION, [_ID]),
        **{f"{_TOPOLOGY}/{name}": _action(summary) for name, summary in ACTIONS.items()},
        "/readyz": _get("Whether the topology is healthy; the status is 503 if not.", schemas.READY),
        "/healthz": _get("The process answers."),
        "/metrics": _get("The metrics, for Prometheus."),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Anchorbolt", "version": anchorbolt.__version__},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _get(summary: str, schema: schemas.Schema | None = None, parameters: Sequence[Json] = ()) -> Json:
    answer = {"description": summary, "content": {"text/plain": {}}} if schema is None else _json(summary, schema)
    return {
        "get": {"summary": summary, "parameters": list(parameters), "responses": {"200": answer, "default": _REFUSED}}
    }


def _action(summary: str) -> Json:
    return {
        "post": {
            "summary": f"{summary} Needs --ui-actions and the token.",
            "parameters": [_ID],
            "security": [{"token": []}],
            "responses": {"200": _json("The run does it.", schemas.DONE), "default": _REFUSED},
        }
    }


def _json(text: str, schema: schemas.Schema) -> Json:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _path(name: str) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query(name: str, text: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": text, "schema": schema}


_REFUSED = _json("The request is refused.", schemas.REFUSED)
_ID = _path("id")
_WINDOW = _query("window", "Seconds, or all time.", {"enum": list(ALL_WINDOWS), "default": DEFAULT_WINDOW})
_SYS = _query("sys", "1: ackers, too.", {"enum": ["0", "1"], "default": "0"})
_FIRST = _query("first", "The first task of the page.", {"type": "integer", "minimum": 0, "default": 0})
_COUNT = _query("count", "So many.", {"type": "integer", "minimum": 1, "maximum": MOST_TASKS, "default": 50})
_SORT = _query("sort", "What orders the tasks; most first.", {"enum": list(SORTS), "default": "task"})
_KEY = _query("key", "JSON, a Python literal, or plain text.", {"type": "string", "maxLength": MOST_KEY_CHARACTERS})
_LAST = _query("last", "So many.", {"type": "integer", "minimum": 1, "maximum": MOST_WAVES, "default": 100})
_FAILED = _query("failed", "1: only those that failed.", {"enum": ["0", "1"], "default": "0"})
