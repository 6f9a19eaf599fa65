"""How large the committed states are, and the value of a key that was looked up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.engine.driver.committed_state import StoredValue
from anchorbolt.errors import AnchorboltError
from anchorbolt.observe.figures.state_sizes import MeasuredSizes, Point, Size, total
from anchorbolt.ui.model.component import spread_of
from anchorbolt.ui.model.observation import Observation
from anchorbolt.util.values import as_json, as_text

Json = dict[str, Any]

_GROWTHS_S = (600, 3600)
_POINTS = 60  # of a history
_DECODED_BYTES = 1 << 20
_JSON_CHARACTERS = 16 << 10
_TEXT_CHARACTERS = 4000


def state(seen: Observation) -> Json:
    """Return the answer of `/api/v1/topology/{id}/state`: the sizes of all components that keep state."""
    measured = seen.state()
    described = [each for each in seen.graph["components"] if _keeps_state(each)]
    return {
        "store": seen.facts.get("state", ""),
        "isLive": seen.is_live,
        "measuredAgeSecs": None if measured is None or measured.age_s is None else round(measured.age_s, 1),
        "components": [_component(measured, each) for each in described],
    }


def component_state(seen: Observation, name: str, *, first: int, count: int) -> Json | None:
    """Return the answer of `/api/v1/topology/{id}/state/{component}`; None if the component keeps no state.

    `tasks` has at most `count` tasks from the `first` one on; those with most keys come first.
    """
    described = seen.component(name)
    if described is None or not _keeps_state(described):
        return None
    measured = seen.state()
    sizes = _sizes(measured, name)
    ordered = sorted(sizes.items(), key=lambda each: (-(each[1].keys or 0), -(each[1].bytes or 0), each[0]))
    keys = [size.keys for size in sizes.values() if size.keys is not None]
    return {
        **{label: value for label, value in state(seen).items() if label != "components"},
        **_component(measured, described),
        "canLookUp": seen.is_live and described["kind"] == "bolt",
        "tasksFirst": first,
        "bySize": [{"task": task, **size._asdict()} for task, size in ordered[first : first + count]],
        "spread": spread_of(keys) if keys else None,
    }


def shown_key(key: Any) -> Json:
    """Return how a key was understood."""
    return {"key": as_json(key), "keyText": as_text(key, _TEXT_CHARACTERS)}


def shown_value(stored: StoredValue) -> Json:
    """Return what a task has under a key: its text, and its value unless the JSON of it is long.

    Runs the user's codec, `upcast` and `repr`. A value that is very long or cannot be decoded has a `problem` instead.
    """
    assert stored.data is not None
    shown: Json = {"task": stored.task, "bytes": len(stored.data)}
    if len(stored.data) > _DECODED_BYTES:
        return {**shown, "problem": "the value is too long to be shown here: anchorbolt state get prints it"}
    try:
        value = stored.value()
    except AnchorboltError as error:
        return {**shown, "problem": error.message}
    shown["text"] = as_text(value, _TEXT_CHARACTERS)
    made = as_json(value)
    return shown | {"value": made} if len(json.dumps(made)) <= _JSON_CHARACTERS else shown


def _keeps_state(described: Mapping[str, Any]) -> bool:
    return bool(described.get("stateful")) or described["kind"] == "acker"


def _sizes(measured: MeasuredSizes | None, name: str) -> dict[int, Size]:
    tasks = {} if measured is None else measured.tasks
    return {index: size for (component, index), size in tasks.items() if component == name}


def _component(measured: MeasuredSizes | None, described: Mapping[str, Any]) -> Json:
    name = described["id"]
    sizes = _sizes(measured, name)
    whole = total(sizes.values()) if sizes else Size(None, None)
    most = max((each.keys or 0 for each in sizes.values()), default=0)
    return {
        "component": name,
        "type": described["type"],
        "tasks": described["tasks"],
        **whole._asdict(),
        "skew": round(most * len(sizes) / whole.keys, 2) if whole.keys else None,
        "growth": [] if measured is None else [_growth(measured, name, each) for each in _GROWTHS_S],
        "history": [] if measured is None else _history(measured.history.get(name, ())),
    }


def _growth(measured: MeasuredSizes, name: str, seconds: int) -> Json:
    grown = measured.grown(name, seconds) or Point(0, Size(None, None))
    return {"seconds": seconds, "overSecs": round(grown.age_s, 1), **grown.size._asdict()}


def _history(points: Sequence[Point]) -> list[Json]:
    """Return evenly chosen points, the first and the last among them."""
    steps = min(len(points), _POINTS)
    chosen = [points[step * (len(points) - 1) // max(1, steps - 1)] for step in range(steps)]
    return [{"ageSecs": round(each.age_s, 1), **each.size._asdict()} for each in chosen]
