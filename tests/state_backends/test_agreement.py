"""Every backend answers like the memory backend, whatever is called in whatever order: one state machine drives all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from anchorbolt.errors import StateError
from anchorbolt.state_backends.base import Fence, Seal, StateProvider, StateStorage
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.redis import RedisStateProvider
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from tests.support.redis_server import RedisServer

ATTEMPTS = [letter * 32 for letter in "abc"]
KEYS = [b"", b"k", b"key", b"\xc1", b"\x00", b"applied", b"0"]

fences = st.builds(Fence, st.integers(0, 3), st.integers(0, 3))
txids = st.integers(-1, 4)
attempts = st.sampled_from(ATTEMPTS)
handles = st.integers(0, 1)
values = st.one_of(st.none(), st.sampled_from([b"", b"-", b"+", b"\xc1"]), st.binary(max_size=3))
items = st.dictionaries(st.sampled_from(KEYS), values, max_size=4).map(lambda updates: list(updates.items()))
entries = st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=3), max_size=3)
codecs = st.sampled_from(["one", "one", "one", "two"])
Outcome = tuple[str, object]


class Agreement(RuleBasedStateMachine):
    """Two handles of one namespace, on the backend under test and on the reference; every call goes to both."""

    provider: StateProvider

    def __init__(self) -> None:
        super().__init__()
        self.namespace = f"agreement:{uuid.uuid4().hex}"
        self.providers = [MemoryStateProvider(), self.provider]
        self.storages = [[self.open(each) for each in self.providers] for _ in range(2)]
        self.last: Callable[[], Outcome] | None = None

    def open(self, provider: StateProvider) -> StateStorage:
        return provider.open(self.namespace)

    def both(self, handle: int, call: Callable[[StateStorage], Any]) -> Outcome:
        """Make one call on both, demand the same outcome, and remember the call to repeat it."""
        storages = self.storages[handle]
        expected, actual = (outcome(call, storage) for storage in storages)
        assert actual == expected
        self.last = lambda: self.both(handle, call)
        return expected

    @rule(handle=handles)
    def claim(self, handle: int) -> None:
        self.both(handle, lambda storage: storage.claim())

    @rule(handle=handles, fence=fences)
    def raise_fence(self, handle: int, fence: Fence) -> None:
        self.both(handle, lambda storage: storage.raise_fence(fence))

    @rule(
        handle=handles,
        fence=fences,
        txid=txids,
        attempt=attempts,
        base=txids,
        number=st.integers(0, 3),
        updates=items,
        codec=codecs,
    )
    def stage_anything(
        self,
        handle: int,
        fence: Fence,
        txid: int,
        attempt: str,
        base: int,
        number: int,
        updates: list[tuple[bytes, bytes | None]],
        codec: str,
    ) -> None:
        self.stage(handle, fence, txid, attempt, base, number, updates, codec)

    def stage(
        self,
        handle: int,
        fence: Fence,
        txid: int,
        attempt: str,
        base: int,
        number: int,
        updates: list[tuple[bytes, bytes | None]],
        codec: str,
    ) -> Outcome:
        return self.both(
            handle, lambda storage: storage.stage(fence, txid, attempt, base, number, updates, codec)
        )

    def seal(self, handle: int, fence: Fence, attempt: str, seal: Seal) -> Outcome:
        return self.both(handle, lambda storage: storage.seal(fence, attempt, seal))

    @rule(
        handle=handles,
        higher=st.booleans(),
        attempt=attempts,
        updates=st.lists(items, min_size=1, max_size=3),
    )
    def stage_as_one_should(
        self, handle: int, higher: bool, attempt: str, updates: list[list[tuple[bytes, bytes | None]]]
    ) -> None:
        head = self.storages[0][0].head()
        fence = Fence(head.fence.generation, head.fence.seq + higher)
        txid, codec = head.committed + 1, head.codec or "one"
        for number, some in enumerate(updates):
            self.stage(handle, fence, txid, attempt, head.committed, number, some, codec)

    @rule(handle=handles, fence=fences, attempt=attempts, seal=st.builds(Seal, st.integers(0, 3), st.just(0)))
    def seal_anything(self, handle: int, fence: Fence, attempt: str, seal: Seal) -> None:
        self.seal(handle, fence, attempt, seal)

    @rule(handle=handles, attempt=attempts, updates=items, commit=st.booleans())
    def finish_an_attempt(
        self, handle: int, attempt: str, updates: list[tuple[bytes, bytes | None]], commit: bool
    ) -> None:
        """Add what may be its last slice, or the first one, seal it, and commit it."""
        head = self.storages[0][0].head()
        txid, codec = head.committed + 1, head.codec or "one"
        for number in range(3):
            kind, seal = self.stage(handle, head.fence, txid, attempt, head.committed, number, updates, codec)
            if kind == "returned":
                assert isinstance(seal, Seal)
                self.seal(handle, head.fence, attempt, seal)
                break
        if commit:
            self.both(handle, lambda storage: storage.commit(head.fence, txid, attempt))

    @rule(handle=handles, fence=fences, txid=txids, attempt=attempts)
    def commit_anything(self, handle: int, fence: Fence, txid: int, attempt: str) -> None:
        self.both(handle, lambda storage: storage.commit(fence, txid, attempt))

    @rule(handle=handles, fence=fences)
    def rollback(self, handle: int, fence: Fence) -> None:
        self.both(handle, lambda storage: storage.rollback(fence))

    @rule(handle=handles, fence=fences, written=entries, codec=codecs)
    def write(self, handle: int, fence: Fence, written: dict[bytes, bytes], codec: str) -> None:
        self.both(handle, lambda storage: storage.write(fence, written, codec))

    @rule(handle=handles, keys=st.lists(st.sampled_from(KEYS), max_size=5), attempt=st.none() | attempts)
    def get_many(self, handle: int, keys: list[bytes], attempt: str | None) -> None:
        self.both(handle, lambda storage: storage.get_many(keys, attempt))

    @rule(handle=handles, attempt=st.none() | attempts, page_size=st.integers(1, 4))
    def scan(self, handle: int, attempt: str | None, page_size: int) -> None:
        self.both(
            handle,
            lambda storage: sorted(entry for page in storage.scan(attempt, page_size) for entry in page),
        )

    @rule()
    def repeat_the_last_call(self) -> None:
        if self.last is not None:
            self.last()

    @rule(handle=handles)
    def reopen(self, handle: int) -> None:
        for storage in self.storages[handle]:
            storage.close()
        self.storages[handle] = [self.open(each) for each in self.providers]
        self.last = None

    @rule()
    def list_namespaces(self) -> None:
        expected, actual = (list(each.namespaces(self.namespace)) for each in self.providers)
        assert actual == expected

    @invariant()
    def heads_are_equal(self) -> None:
        expected, actual = (storage.head() for storage in self.storages[0])
        assert actual == expected

    def teardown(self) -> None:
        for storages in self.storages:
            for storage in storages:
                storage.close()


def agreement_of(under_test: StateProvider) -> type[Agreement]:
    class AgreementOfOne(Agreement):
        provider = under_test

    return AgreementOfOne


def outcome(call: Callable[[StateStorage], Any], storage: StateStorage) -> Outcome:
    try:
        return "returned", call(storage)
    except StateError as error:
        return "raised", (type(error).__name__, str(error))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    # Some hundred examples leave some hundred files.
    shutil.rmtree(tmp_path)


RUN = settings(max_examples=120, stateful_step_count=40, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
def test_sqlite_agrees_with_the_reference(directory: Path) -> None:
    provider = SqliteStateProvider(str(directory))
    run_state_machine_as_test(agreement_of(provider), settings=RUN)


@pytest.mark.slow
def test_redis_agrees_with_the_reference(redis_database: RedisServer) -> None:
    provider = RedisStateProvider(redis_database.host, redis_database.port)
    run_state_machine_as_test(agreement_of(provider), settings=RUN)


@pytest.mark.slow
def test_hbase_agrees_with_the_reference(hbase_provider: HBaseStateProvider) -> None:
    # Each call is some round trips to a server that takes a millisecond for each.
    few = settings(RUN, max_examples=60)
    run_state_machine_as_test(agreement_of(hbase_provider), settings=few)
