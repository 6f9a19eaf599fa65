"""The common fixtures of the conformance suite, and short forms of the steps. It contains no tests."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

import pytest

from anchorbolt.state_backends.contract import Fence, ReadPosition, Seal, StagedSlice, StateProvider, StateStorage

CODEC = "conformance/1"
FIRST = Fence(1, 0)
"""The fence that most tests begin with."""

E = TypeVar("E", bound=Exception)
Items = Sequence[tuple[bytes, bytes | None]]


class ConformanceBase:
    """Gives the fixtures; `provider` comes from the subclass."""

    @pytest.fixture
    def namespace(self) -> str:
        """The name of an unused namespace."""
        return new_namespace()

    @pytest.fixture
    def storage(self, provider: StateProvider, namespace: str) -> Iterator[StateStorage]:
        """A new namespace, opened."""
        with closing(provider.open(namespace)) as storage:
            yield storage


def new_namespace() -> str:
    """Return an unused name."""
    return f"conformance:{uuid.uuid4().hex}-0"


def new_attempt() -> str:
    """Return an unused id."""
    return uuid.uuid4().hex


def stage_slice(
    storage: StateStorage,
    attempt: str,
    number: int,
    updates: Mapping[bytes, bytes | None],
    *,
    fence: Fence = FIRST,
    txid: int = 0,
    base: int = -1,
    codec: str = CODEC,
) -> Seal:
    """Stage one slice."""
    return storage.stage(StagedSlice(fence, txid, attempt, base, number, updates, codec))


def stage(storage: StateStorage, *slices: Items, attempt: str | None = None, **others: Any) -> tuple[str, Seal]:
    """Stage an attempt of one or more slices, and return its id and seal; `others` are arguments of `stage_slice`."""
    attempt = attempt or new_attempt()
    for number, items in enumerate(slices):
        seal = stage_slice(storage, attempt, number, dict(items), **others)
    return attempt, seal


def staged(storage: StateStorage, *slices: Items, fence: Fence = FIRST, **others: Any) -> str:
    """Stage and seal an attempt, and return its id."""
    attempt, seal = stage(storage, *slices, fence=fence, **others)
    storage.seal(fence, attempt, seal)
    return attempt


def committed(storage: StateStorage, *slices: Items, fence: Fence = FIRST, txid: int = 0, **others: Any) -> str:
    """Stage, seal and commit an attempt, and return its id."""
    attempt = staged(storage, *slices, fence=fence, txid=txid, **others)
    storage.commit(fence, txid, attempt)
    return attempt


def entries(
    storage: StateStorage, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
) -> dict[bytes, bytes]:
    """Return all entries that `scan` yields; fail if an entry comes twice."""
    found = [entry for page in storage.scan(attempt, page_size, at) for entry in page]
    assert len(found) == len({key for key, _ in found}), "scan yielded a key twice"
    return dict(found)


def refused(error: type[E], call: Callable[..., object], *arguments: Any, **named: Any) -> E:
    """Check that a call raises `error`, and return the exception."""
    with pytest.raises(error) as refusal:
        call(*arguments, **named)
    return refusal.value
