"""A namespace whose waves are run by hand."""

from typing import Any

from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import Fence, StateProvider, StateStorage
from anchorbolt.state_backends.state import AttemptScope

NAMESPACE = "t:count-0"
OPENED: list[StateStorage] = []
"""Closed after each test."""


class Namespace:
    """One namespace, wave by wave, each by a state of its own."""

    def __init__(self, provider: StateProvider) -> None:
        self._provider = provider
        self._at = (-1, "")
        self._waves = 0

    def _open(self) -> StateStorage:
        storage = self._provider.open(NAMESPACE)
        OPENED.append(storage)
        return storage

    def wave(self, **options: Any) -> KeyValueState[Any, Any]:
        self._waves += 1
        state: KeyValueState[Any, Any] = KeyValueState(self._open(), **options)
        state.begin(AttemptScope(Fence(1, self._waves), self._at[0] + 1, f"{self._waves:032x}", *self._at))
        return state

    def commit(self, state: KeyValueState[Any, Any]) -> None:
        state.commit()
        self._at = (self._at[0] + 1, f"{self._waves:032x}")

    def store(self, entries: dict[Any, Any], **options: Any) -> None:
        """Put entries in a wave of their own."""
        state = self.wave(**options)
        state.put_many(entries)
        self.commit(state)

    def stored(self) -> dict[bytes, bytes]:
        return dict(entry for page in self._open().scan() for entry in page)

    def damage(self, entries: dict[bytes, bytes]) -> None:
        """Replace what is stored."""
        self._open().write(Fence(1, 1), entries, self.header())

    def header(self) -> str:
        return self._open().head().codec
