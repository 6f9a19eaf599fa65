"""The answers below `/api/v1/topology/{id}`: the path of each, its parameters, its type, and what makes it.

The app serves this table, and the OpenAPI description is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from anchorbolt.observe.history.records import Wave
from anchorbolt.ui import answers
from anchorbolt.ui.model.component import MOST_TASKS, SORTS, component
from anchorbolt.ui.model.configuration import configuration
from anchorbolt.ui.model.failures import failures
from anchorbolt.ui.model.now import now
from anchorbolt.ui.model.observation import ALL_WINDOWS, Observation
from anchorbolt.ui.model.state import component_state, state
from anchorbolt.ui.model.topology import DEFAULT_WINDOW, graph, topology
from anchorbolt.ui.model.waves import MOST_WAVES, wave, waves

BASE = "/api/v1/topology/{id}"

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
        """Return the value that a request gives. Raises `ValueError` with what it must be."""


class Choice(NamedTuple):
    """One of some texts."""

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
    """Whether the text is 1."""

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
    make: Callable[[Observation, Given], Any]  # returns None if there is no such thing
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
