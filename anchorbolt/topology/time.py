"""The time of a stateful bolt as its author declares it: TTL, timers and event time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

from anchorbolt.bolts.arrow import BaseArrowBolt, BaseStatefulArrowBolt
from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.bolts.batch import BaseBatchBolt
from anchorbolt.errors import TopologyError
from anchorbolt.util.messages import shortened
from anchorbolt.util.times import NEVER, positive_ms, to_ms
from anchorbolt.windows.task_window import BaseWindowedBolt, WindowedBoltExecutor


class TimeSpec(NamedTuple):
    """What a bolt declares; the defaults are those of a bolt without time. All durations are in ms."""

    ttl_ms: int | None = None  # of entries put without a TTL; 0: they stay; None: as the topology's setting says
    has_timers: bool = False
    event_time: str | None = None  # the field
    lag_ms: int = 0
    idle_ms: int | None = None
    max_ahead_ms: int = 0


NO_TIME = TimeSpec()


def time_of(id: str, bolt: Bolt) -> TimeSpec:
    """Return the time of a bolt. Raises `TopologyError` if an attribute is not what it must be, or has no effect."""
    _refuse_ignored(id, bolt.bolt if isinstance(bolt, WindowedBoltExecutor) else bolt)
    if not isinstance(bolt, BaseStatefulBolt):
        return NO_TIME
    kind = type(bolt)
    hook, has_timers = "on_timer", kind.on_timer is not BaseStatefulBolt.on_timer
    if isinstance(bolt, BaseStatefulArrowBolt):
        if has_timers:
            raise _refusal(id, "is vectorised, and overrides on_timer. Override on_timers, which takes several")
        hook, has_timers = "on_timers", type(bolt).on_timers is not BaseStatefulArrowBolt.on_timers
    if kind.init_timers is not BaseStatefulBolt.init_timers and not has_timers:
        raise _refusal(id, f"overrides init_timers, but not {hook}. Override {hook}, which is called for due timers")
    if bolt.event_time is not None and (not isinstance(bolt.event_time, str) or not bolt.event_time):
        raise _refusal(id, f"has event_time {shortened(bolt.event_time)}. Set the name of a field of its input")
    timed = TimeSpec(
        ttl_ms=0 if bolt.state_ttl == NEVER else _duration_above_zero(id, "state_ttl", bolt.state_ttl),
        has_timers=has_timers,
    )
    if bolt.event_time is None:
        return timed
    return timed._replace(
        event_time=bolt.event_time,
        lag_ms=_duration(id, "lag", bolt.lag),
        idle_ms=_duration_above_zero(id, "idle", bolt.idle),
        max_ahead_ms=_duration(id, "max_ahead", bolt.max_ahead),
    )


def _refuse_ignored(id: str, given: Bolt) -> None:
    """Refuse timers, event time and a TTL in the class of a bolt that has none of them.

    Attributes of the object, such as an `event_time` from its `__init__`, may be the author's own.
    """
    if isinstance(given, BaseStatefulBolt):
        return
    kind = type(given)
    ignored = [name for name in ("on_timer", "on_timers", "init_timers") if callable(getattr(kind, name, None))]
    ignored += ["event_time"] if isinstance(getattr(kind, "event_time", None), str) else []
    if not isinstance(given, BaseWindowedBolt):
        ignored += ["state_ttl"] if isinstance(getattr(kind, "state_ttl", None), str | timedelta) else []
    if ignored:
        advice = "Extend BaseStatefulBolt"
        if isinstance(given, BaseBatchBolt):
            advice = "Make it a stateful committer, which extends BaseStatefulBolt and Committer"
        elif isinstance(given, BaseWindowedBolt):
            advice = "Set the event time by with_timestamp_field. For timers, extend BaseStatefulBolt"
        elif isinstance(given, BaseArrowBolt):
            advice = "Extend BaseStatefulArrowBolt"
        names = " and ".join(ignored)
        problem = f"has {names}, but its class {kind.__name__} does not extend BaseStatefulBolt. {advice}"
        raise _refusal(id, f"{problem}; or use another name for it")


def _duration_above_zero(id: str, name: str, value: object) -> int | None:
    return None if value is None else _duration(id, name, value, positive_ms)


def _duration(id: str, name: str, value: Any, convert: Callable[[Any], int] = to_ms) -> int:
    try:
        return convert(value)
    except ValueError as error:
        raise _refusal(id, f"has {name} {shortened(value)}: {error}") from None


def _refusal(id: str, problem: str) -> TopologyError:
    return TopologyError(f"bolt {id!r} {problem}.", component=id)
