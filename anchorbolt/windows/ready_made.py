"""Bolts that are ready to use: `Deduplicate`, `RollingCount` and `TopN`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from heapq import nlargest
from operator import itemgetter
from typing import Any

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.times import Duration
from anchorbolt.windows.keyed import BaseWindowBolt, WindowCollector
from anchorbolt.windows.kinds import Session, Tumbling, Window

_NUMBERS = (int, float, Decimal)


class Deduplicate(BaseStatefulBolt[KeyValueState[Any, bool]]):
    """Passes on the first tuple of each key, and no other one for as long as `ttl`.

    Group its input by the fields that make two tuples equal.
    """

    def __init__(self, fields: Sequence[str], *, ttl: Duration) -> None:
        """Create it. `fields` are all those of the input; `ttl` counts from the tuple that was passed on.

        Raises `TopologyError` if `fields` is text instead of a list. The topology is refused if an input has others.
        """
        if isinstance(fields, str):
            raise TopologyError(f"Deduplicate got the fields {fields!r}. Pass a list with all fields of its input.")
        self._names = tuple(fields)
        self.state_ttl = ttl

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Check the fields. Called by the engine. Raises `TopologyError` if an input has other fields."""
        for (component, stream), fields in inputs.items():
            if fields != self._names:
                raise TopologyError(
                    f"has the fields {list(self._names)}, and stream {stream!r} of {component!r} has {list(fields)}. "
                    "Pass all fields of the input, and group it by those that make two tuples equal."
                )

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self._collector = collector
        self._keys = context.grouping_fields

    def init_state(self, state: KeyValueState[Any, bool]) -> None:
        self._seen = state

    def execute(self, tup: Tuple) -> None:
        if not tup.is_tick:
            fields = self._keys[tup.source_component, tup.source_stream] or self._names
            key = tup[fields[0]] if len(fields) == 1 else tuple(tup[field] for field in fields)
            if self._seen.get(key) is None:
                self._seen.put(key, True)
                self._collector.emit(tup.values, anchors=tup)
        self._collector.ack(tup)

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare(*self._names)


class RollingCount(BaseWindowBolt):
    """Counts the tuples of each key in windows; emits the key, the count, and the last ms of the window.

    The fields are `key`, `count` and `at`. Group its input by the key.
    """

    def __init__(self, window: Tumbling | Session, *, event_time: str | None = None, lag: Duration = "0 s") -> None:
        """Create it; for `event_time` and `lag` see `BaseStatefulBolt`."""
        self.window, self.event_time, self.lag = window, event_time, lag

    def create(self) -> int:
        return 0

    def add(self, value: int, tup: Tuple) -> int:
        return value + 1

    def merge(self, one: int, other: int) -> int:
        return one + other

    def close(self, key: Any, window: Window, value: int, collector: WindowCollector) -> None:
        collector.emit((key, value, window.end - 1))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "count", "at")


class TopN(BaseWindowBolt):
    """Emits the `n` keys with the largest counts of each window, the largest first, and the last ms of the window.

    The fields of its input and of its output are `key`, `count` and `at`, as of a `RollingCount`, so one `TopN` of
    several tasks may feed one of a single task. Of several counts of a key in a window, the last one counts. All tuples
    of a task are in one window: its value has all keys.
    """

    def __init__(
        self, n: int, window: Tumbling | Session, *, event_time: str | None = None, lag: Duration = "0 s"
    ) -> None:
        """Create it; for `event_time` and `lag` see `BaseStatefulBolt`. Raises `TopologyError` for an `n` below 1."""
        if type(n) is not int or n < 1:
            raise TopologyError(f"TopN got n = {n!r}. Pass how many keys to emit: a number of at least 1.")
        self.window, self.event_time, self.lag = window, event_time, lag
        self._n = n

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Check the fields. Called by the engine. Raises `TopologyError` if an input has no key or no count."""
        for (component, stream), fields in inputs.items():
            if missing := [name for name in ("key", "count") if name not in fields]:
                raise TopologyError(
                    f"needs the fields key and count, and stream {stream!r} of {component!r} has no "
                    f"{' and no '.join(missing)}: its fields are {', '.join(fields) or 'none'}."
                )

    def key(self, tup: Tuple) -> None:
        return None

    def create(self) -> dict[Any, Any]:
        return {}

    def add(self, value: dict[Any, Any], tup: Tuple) -> dict[Any, Any]:
        count = tup["count"]
        if not isinstance(count, _NUMBERS):
            raise ValueError(f"the count of {tup['key']!r} is {count!r}, which is not a number")
        value[tup["key"]] = count
        return value

    def merge(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        return {**one, **other}

    def close(self, key: Any, window: Window, value: dict[Any, Any], collector: WindowCollector) -> None:
        try:
            entries = sorted(value.items(), key=itemgetter(0))
        except TypeError:  # keys of several types
            entries = sorted(value.items(), key=lambda entry: repr(entry[0]))
        for each, count in nlargest(self._n, entries, itemgetter(1)):
            collector.emit((each, count, window.end - 1))

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("key", "count", "at")
