"""Refuses a `Fault` that is wrong or can never strike: otherwise a test would pass without its fault."""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import TypeVar

from anchorbolt.errors import ConfigError
from anchorbolt.faults.points import FaultPoint
from anchorbolt.util.messages import did_you_mean, shortened

M = TypeVar("M", bound=Enum)


def checked_member(name: str, given: object, kind: type[M]) -> M:
    """Return the member of `kind` that is, or has the value, `given`; otherwise offer the nearest one."""
    try:
        return kind(given)
    except ValueError:
        pass
    spellings = {spelling: member for member in kind for spelling in (member.value, member.name)}
    nearest = get_close_matches(given, spellings, n=1) if isinstance(given, str) else []
    hint = ""
    if nearest:
        member = spellings[nearest[0]]
        hint = f" Did you mean {kind.__name__}.{member.name} ({member.value!r})?"
    names = ", ".join(member.name for member in kind)
    raise _refusal(name, given, f"Pass a {kind.__name__}, one of {names}.", hint)


def check_number(name: str, given: object, least: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise _refusal(name, given, f"Pass a whole number, at least {least}.")


def check_seconds(given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < math.inf:
        raise _refusal("seconds", given, "Pass a number of seconds, at least 0.")


def check_component(given: object) -> None:
    if not isinstance(given, str) or not given:
        raise _refusal("component", given, "Pass a component's id.")


def check_reachable(point: FaultPoint, component: str | None, task_index: int | None, txid: int | None) -> None:
    """Refuse a component, a task or a transaction with which the point is never reached."""
    first = point.first_txid
    unfit = {
        "component": component is not None and not point.has_component,
        "task_index": task_index is not None and not point.has_task,
        "txid": txid is not None and (first is None or txid < first),
    }
    for name, never in unfit.items():
        if never:
            reason = f"the first is {first}" if name == "txid" and first is not None else "the point has none"
            raise ConfigError(
                f"Fault: {name} does not fit FaultPoint.{point.name} ({point.value!r}): {reason}. Leave it out, and "
                "use nth to select a later time."
            )


def check_known_task(component: str, task_index: int | None, tasks: Mapping[str, int | None]) -> None:
    """Refuse a component or task that the topology lacks; `tasks` is their number by component, None if unknown."""
    if component not in tasks:
        raise ConfigError(
            f"Fault: component is {component!r}, which the topology does not have."
            f"{did_you_mean(component, tasks)} It has {', '.join(tasks)}. Nothing was started."
        )
    count = tasks[component]
    if task_index is not None and count is not None and task_index >= count:
        raise ConfigError(
            f"Fault: task_index is {task_index}, but {component!r} has {count} tasks, counted from 0. Nothing was "
            "started."
        )


def _refusal(name: str, given: object, advice: str, hint: str = "") -> ConfigError:
    return ConfigError(f"Fault: {name} is {shortened(given, 100)}.{hint} {advice}")
