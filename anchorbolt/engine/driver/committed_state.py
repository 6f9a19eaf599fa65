"""Reads the committed state of stateful bolts: all of it, or one key. Takes no fence, and no wave waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import ConfigError, StateError, UnsupportedValue
from anchorbolt.state_backends.contract import StateProvider, StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding, older_header, older_keys
from anchorbolt.state_backends.timed.expiry import live, live_entry
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.util.keys import has_one_spelling
from anchorbolt.util.messages import shortened


@dataclass(frozen=True)
class StoredValue:
    """The value that one task's state has under a key."""

    task: int  # its index
    key: Any
    data: bytes | None  # as stored, without its due time; None if the state does not have the key
    encoding: EntryEncoding
    expires_at: int | None = None  # ms since 1970; None for an entry that stays

    def value(self) -> Any:
        """Decode the value, which must be there. Raises the errors of `EntryEncoding.value_from`."""
        assert self.data is not None
        return self.encoding.value_from(self.key, self.encoding.cached_value(self.key, self.data))


def items(plan: ExecutionPlan, component: str, now: int) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of a stateful bolt at this time, in ms since 1970; see `RunHandle.state_items`."""
    _check_stateful(plan, component)
    for index in range(len(plan.wiring.tasks[component])):
        with closing(_opened(plan, component, index)) as storage:
            if storage.head().codec == CUSTOM_HEADER:
                raise _own_class(component, storage)
            encoding = _encoding(plan, component, storage)
            for page in storage.scan():
                for key_data, value, _ in live(page, now):
                    yield encoding.entry_from(key_data, value)


def look_up(plan: ExecutionPlan, component: str, key: Any, now: int) -> Iterator[StoredValue]:
    """Yield each task's value of a key of a stateful bolt, with one round trip each; see `RunHandle.lookup`.

    The task to which fields grouping sends the key comes first.
    """
    _check_stateful(plan, component)
    count = len(plan.wiring.tasks[component])
    first = _likely_task(key, count)
    for step in range(count):
        index = (first + step) % count
        with closing(_opened(plan, component, index)) as storage:
            encoding = _encoding(plan, component, storage)
            key_data = encoding.key_bytes([encoding.cache_key(key)])
            if is_of_own_class(plan, storage):
                raise _own_class(component, storage)
            older = older_header(encoding.header)
            if older != encoding.header and not has_one_spelling(key) and storage.head().codec == older:
                raise older_keys(storage.namespace)
            [stored] = storage.get_many(key_data)
        entry = live_entry(key_data[0], stored, now)
        if entry is None:
            yield StoredValue(index, key, None, encoding)
        else:
            yield StoredValue(index, key, entry.value, encoding, entry.expires_at)


def equal_keys(plan: ExecutionPlan, component: str, key: Any, now: int) -> StateError:
    """Return the error for a key that is equal in a dict to another key of the component's states."""
    tasks = sorted(each.task for each in look_up(plan, component, key, now) if each.data is not None)
    if len(tasks) > 1:
        return StateError(
            f"bolt {component!r} has the key {shortened(key)} in several tasks: {', '.join(map(str, tasks))}. Each has "
            "its own value. Read them with lookup(component, key). If there should be one value, group the bolt's "
            "input by the fields that make its keys."
        )
    return StateError(
        f"bolt {component!r} has several keys that are equal to {shortened(key)} in a dict, but are different keys in "
        "the state, as 1, 1.0 and True are. Read them with state_items(component)."
    )


def is_of_own_class(plan: ExecutionPlan, storage: StateStorage) -> bool:
    """Return whether the state is of the user's own class, with no entries in its namespace."""
    may_be = type(plan.provider).new_state is not StateProvider.new_state  # otherwise the head need not be read
    return may_be and storage.head().codec == CUSTOM_HEADER


def _likely_task(key: Any, count: int) -> int:
    try:
        return destination_of(stable_hash(key), count)
    except UnsupportedValue:  # fields grouping refuses such a key, but a user's serializer may accept it
        return 0


def _check_stateful(plan: ExecutionPlan, component: str) -> None:
    if component not in plan.wiring.stateful_bolts:
        raise ConfigError(
            f"{component!r} is not a stateful bolt of {plan.topology!r}. Its stateful bolts: "
            f"{', '.join(plan.wiring.stateful_bolts) or 'none'}."
        )


def _opened(plan: ExecutionPlan, component: str, index: int) -> StateStorage:
    return plan.provider.open(plan.wiring.namespace((component, index)))


def _encoding(plan: ExecutionPlan, component: str, storage: StateStorage) -> EntryEncoding:
    return EntryEncoding(
        storage.namespace, plan.key_codec, plan.value_codec, plan.schema(component), limits=storage.limits
    )


def _own_class(component: str, storage: StateStorage) -> StateError:
    return StateError(
        f"bolt {component!r} has a state of its own class, without entries. Read it with that class.",
        namespace=storage.namespace,
    )
