"""The sizes of the committed states, and the value of a key that was looked up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, structs

from anchorbolt.engine.driver.committed_state import StoredValue
from anchorbolt.errors import AnchorboltError
from anchorbolt.observe.figures.state_sizes import MeasuredSizes, Point, Size, total
from anchorbolt.observe.history.records import GraphComponent
from anchorbolt.ui.answers import ComponentState, Found, Growth, PastSize, State, StateOf, TaskSize
from anchorbolt.ui.model.component import spread_of
from anchorbolt.ui.model.observation import Observation
from anchorbolt.util.values import as_json, as_text

_GROWTHS_S = (600, 3600)
_POINTS = 60  # of a history
_DECODED_BYTES = 1 << 20
_JSON_CHARACTERS = 16 << 10
TEXT_CHARACTERS = 4000


def state(seen: Observation) -> State:
    """Return the answer of `/api/v1/topology/{id}/state`: the sizes of all components that keep state."""
    measured = seen.state()
    described = [each for each in seen.graph.components if each.keeps_state]
    return State(**_head(seen, measured), components=[StateOf(**_component(measured, each)) for each in described])


def component_state(seen: Observation, name: str, *, first: int, count: int) -> ComponentState | None:
    """Return the answer of `/api/v1/topology/{id}/state/{component}`; None if the component keeps no state.

    `by_size` has at most `count` tasks from position `first`; the most keys come first.
    """
    described = seen.component(name)
    if described is None or not described.keeps_state:
        return None
    measured = seen.state()
    sizes = _sizes(measured, name)
    ordered = sorted(sizes.items(), key=lambda each: (-(each[1].keys or 0), -(each[1].bytes or 0), each[0]))
    keys = [size.keys for size in sizes.values() if size.keys is not None]
    return ComponentState(
        **_head(seen, measured),
        **_component(measured, described),
        can_look_up=seen.is_live and described.kind == "bolt",
        tasks_first=first,
        by_size=[TaskSize(task=task, **size._asdict()) for task, size in ordered[first : first + count]],
        spread=spread_of(keys) if keys else None,
    )


def found_value(stored: StoredValue) -> Found:
    """Return a task's value of a key: as text, and as JSON unless that is long.

    Runs the user's codec, `upcast` and `repr`.
    """
    assert stored.data is not None
    expires_at = UNSET if stored.expires_at is None else stored.expires_at
    found = Found(task=stored.task, bytes=len(stored.data), expires_at=expires_at)
    if found.bytes > _DECODED_BYTES:
        return structs.replace(found, problem="the value is too long to be shown here: anchorbolt state get prints it")
    try:
        value = stored.value()
    except AnchorboltError as error:
        return structs.replace(found, problem=error.message)
    made = as_json(value)
    is_short = len(json.dumps(made)) <= _JSON_CHARACTERS
    return structs.replace(found, text=as_text(value, TEXT_CHARACTERS), value=made if is_short else UNSET)


def _head(seen: Observation, measured: MeasuredSizes | None) -> dict[str, Any]:
    age_s = None if measured is None or measured.age_s is None else round(measured.age_s, 1)
    return {"store": seen.facts.get("state", ""), "is_live": seen.is_live, "measured_age_secs": age_s}


def _sizes(measured: MeasuredSizes | None, name: str) -> dict[int, Size]:
    tasks = {} if measured is None else measured.tasks
    return {index: size for (component, index), size in tasks.items() if component == name}


def _component(measured: MeasuredSizes | None, described: GraphComponent) -> dict[str, Any]:
    """Return the fields of `answers.StateOf`."""
    name = described.id
    sizes = _sizes(measured, name)
    whole = total(sizes.values()) if sizes else Size(None, None)
    most = max((each.keys or 0 for each in sizes.values()), default=0)
    return {
        "component": name,
        "type": described.type,
        "tasks": described.tasks,
        **whole._asdict(),
        "skew": round(most * len(sizes) / whole.keys, 2) if whole.keys else None,
        "growth": [] if measured is None else [_growth(measured, name, each) for each in _GROWTHS_S],
        "history": [] if measured is None else _history(measured.history.get(name, ())),
    }


def _growth(measured: MeasuredSizes, name: str, seconds: int) -> Growth:
    grown = measured.grown(name, seconds) or Point(0, Size(None, None))
    return Growth(seconds=seconds, over_secs=round(grown.age_s, 1), **grown.size._asdict())


def _history(points: Sequence[Point]) -> list[PastSize]:
    """Return evenly chosen points, the first and the last among them."""
    steps = min(len(points), _POINTS)
    chosen = [points[step * (len(points) - 1) // max(1, steps - 1)] for step in range(steps)]
    return [PastSize(age_secs=round(each.age_s, 1), **each.size._asdict()) for each in chosen]
