"""The answers below `/api/v1/topology/{id}`: the path, parameters and type of each, and its function.

The app serves this table, and the OpenAPI description is derived from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.json import schema_components

import anchorbolt
from anchorbolt.observe.history.records import Wave
from anchorbolt.observe.web.guard import Refused
from anchorbolt.ui import answers
from anchorbolt.ui.actions import ACTIONS
from anchorbolt.ui.answers import Done, LookedUp, Ready, Summary
from anchorbolt.ui.lookups import MOST_KEY_CHARACTERS
from anchorbolt.ui.model.component import MOST_TASKS, SORTS, component
from anchorbolt.ui.model.configuration import configuration
from anchorbolt.ui.model.history import MOST_WAVES, failures, wave, waves
from anchorbolt.ui.model.now import now
from anchorbolt.ui.model.observation import ALL_WINDOWS, Observation
from anchorbolt.ui.model.state import component_state, state
from anchorbolt.ui.model.topology import DEFAULT_WINDOW, graph, topology

BASE = "/api/v1/topology/{id}"

Json = dict[str, Any]

Given = Mapping[str, Any]
"""The values of a request's parameters, those of its path included, and `can_act`."""


class Parameter(Protocol):
    """A parameter of a query."""

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""

    def read(self, given: str | None) -> Any:
        """Return the value in a request. Raises `ValueError` with the allowed values."""


class Choice(NamedTuple):
    """One of several texts."""

    name: str
    text: str
    choices: Sequence[str]
    default: str

    @property
    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.choices), "default": self.default}

    def read(self, given: str | None) -> str:
        if given is not None and given not in self.choices:
            raise ValueError(f"{self.name} must be one of {', '.join(self.choices)}")
        return self.default if given is None else given


class Flag(NamedTuple):
    """True if the text is 1."""

    name: str
    text: str

    @property
    def schema(self) -> dict[str, Any]:
        return {"enum": ["0", "1"], "default": "0"}

    def read(self, given: str | None) -> bool:
        return given == "1"


class Number(NamedTuple):
    """A whole number."""

    name: str
    text: str
    least: int
    most: int
    default: int

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most, "default": self.default}

    def read(self, given: str | None) -> int:
        if given is None:
            return self.default
        if not given.isdecimal() or len(given) > 9 or not self.least <= int(given) <= self.most:
            raise ValueError(f"{self.name} must be a number from {self.least} to {self.most}")
        return int(given)


class Answered(NamedTuple):
    """An answer to GET."""

    path: str
    text: str
    answer: Any  # its type
    make: Callable[[Observation, Given], Any]  # returns None if it does not exist
    parameters: Sequence[Parameter] = ()


_WINDOW = Choice("window", "Seconds, or all time.", ALL_WINDOWS, DEFAULT_WINDOW)
_SYS = Flag("sys", "1: ackers, too.")
_FIRST = Number("first", "The first task of the page.", 0, 1_000_000, 0)
_COUNT = Number("count", "How many tasks the page has at most.", 1, MOST_TASKS, 50)
_SORT = Choice("sort", "The order of the tasks; most first.", tuple(SORTS), "task")
_LAST = Number("last", "How many of the latest records.", 1, MOST_WAVES, 100)
_FAILED = Flag("failed", "1: only those that failed.")

COMPONENT_STATE = "/state/{component}"
ANSWERED = (
    Answered(
        "",
        "The topology, its spouts and its bolts over a window.",
        answers.Topology,
        lambda seen, given: topology(seen, given["window"], sys=given["sys"]),
        [_WINDOW, _SYS],
    ),
    Answered(
        "/component/{component}",
        "A component with its tasks, page by page.",
        answers.Component,
        lambda seen, given: component(
            seen, given["component"], given["window"], first=given["first"], count=given["count"], sort=given["sort"]
        ),
        [_WINDOW, _FIRST, _COUNT, _SORT],
    ),
    Answered(
        "/graph",
        "Components and streams, with their rates.",
        answers.DrawnGraph,
        lambda seen, given: graph(seen, given["window"]),
        [_WINDOW],
    ),
    Answered("/state", "The sizes of the committed states.", answers.State, lambda seen, given: state(seen)),
    Answered(
        COMPONENT_STATE,
        "The sizes of a component's tasks, page by page; with a key, its committed values.",
        answers.ComponentState,
        lambda seen, given: component_state(seen, given["component"], first=given["first"], count=given["count"]),
        [_FIRST, _COUNT],
    ),
    Answered(
        "/now",
        "The wave that runs now, and what it waits for.",
        answers.NowOfTopology,
        lambda seen, given: now(seen, can_act=given["can_act"]),
    ),
    Answered(
        "/waves",
        "The history of checkpoints, newest first.",
        answers.Waves,
        lambda seen, given: waves(seen, given["last"], only_failed=given["failed"]),
        [_LAST, _FAILED],
    ),
    Answered("/waves/{txid}", "One wave, with its tasks.", Wave, lambda seen, given: wave(seen, given["txid"])),
    Answered("/failures", "What failed, newest first.", answers.Failures, lambda seen, given: failures(seen)),
    Answered(
        "/configuration", "The configuration, masked.", answers.Configuration, lambda seen, given: configuration(seen)
    ),
)


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
