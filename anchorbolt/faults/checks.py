"""Refuses a `Fault` that is wrong or can never strike, with the nearest name: a test must not pass for want of one."""

from __future__ import annotations

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
    """Return the member of `kind` that an attribute's value is, or is the value of.

    Raises:
        ConfigError: It is none; the message offers the nearest one.
    """
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
    raise ConfigError(
        f"Fault: {name} is {shortened(given, 100)}.{hint} Pass a {kind.__name__}, one of {names}."
    )


def refuse_bad_numbers(nth: object, task_index: object, txid: object, seconds: object) -> None:
    """Raise `ConfigError` where a number of a fault is none, or too small."""
    _refuse_unless_whole("nth", nth, 1, "counted from 1")
    if task_index is not None:
        _refuse_unless_whole("task_index", task_index, 0, "counted from 0, or None for any task")
    if txid is not None:
        _refuse_unless_whole("txid", txid, -1, "counted from 0, -1 before the first, or None for any")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigError(
            f"Fault: seconds is {shortened(seconds, 100)}. Pass a number of seconds, such as 0.5."
        )
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"Fault: seconds is {seconds!r}. Pass a number of seconds from 0 on, such as 0.5.")


def refuse_unreachable(point: FaultPoint, component: object, task_index: object, txid: object) -> None:
    """Raise `ConfigError` where a point is never reached with what a fault asks for."""
    if component is not None:
        if not isinstance(component, str) or not component:
            raise ConfigError(
                f"Fault: component is {shortened(component, 100)}. Pass a component's id, or None for any."
            )
        if not point.has_component:
            raise _never(point, f"component={component!r}", "no component", "Leave it out.")
    if task_index is not None and not point.has_task:
        raise _never(point, f"task_index={task_index!r}", "no task", "Leave it out.")
    if txid is None:
        return
    if point.first_txid is None:
        raise _never(point, f"txid={txid!r}", "no transaction", "Leave it out, and say which time by nth.")
    if isinstance(txid, int) and txid < point.first_txid:
        raise _never(
            point, f"txid={txid!r}", f"no txid below {point.first_txid}", "Name a later one, or none."
        )


def refuse_unknown_task(component: str, task_index: int | None, tasks: Mapping[str, int | None]) -> None:
    """Raise `ConfigError` where a topology lacks the component or the task that a fault is for.

    Args:
        component: The component.
        task_index: The task; None for any.
        tasks: How many tasks each of the topology's components has; None where that is not known.
    """
    if component not in tasks:
        raise ConfigError(
            f"Fault: component is {component!r}, which the topology does not have."
            f"{did_you_mean(component, tasks)} It has {', '.join(tasks)}. Nothing was started."
        )
    count = tasks[component]
    if task_index is not None and count is not None and task_index >= count:
        raise ConfigError(
            f"Fault: task_index is {task_index}, but {component!r} has {count} tasks, counted from 0. Name one of "
            "them, or none. Nothing was started."
        )


def _refuse_unless_whole(name: str, given: object, least: int, advice: str) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ConfigError(f"Fault: {name} is {shortened(given, 100)}. Pass a whole number, {advice}.")


def _never(point: FaultPoint, given: str, lacks: str, advice: str) -> ConfigError:
    return ConfigError(
        f"Fault: {given} never fits FaultPoint.{point.name} ({point.value!r}), which is reached with {lacks}. {advice}"
    )
