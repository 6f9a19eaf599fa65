"""Conformance: claiming, fences, namespaces, and several processes at one store."""

import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing

import pytest

from anchorbolt.errors import Fenced, StaleAttempt
from anchorbolt.state_backends.contract import Fence, NamespaceHead, Seal, StateProvider, StateStorage
from anchorbolt.testing.conformance.base import (
    CODEC,
    FIRST,
    ConformanceBase,
    committed,
    entries,
    new_attempt,
    new_namespace,
    refused,
    stage,
    stage_slice,
    staged,
)

# Every step that writes; `attempt` is staged and sealed for txid 1 over 0.
_STEPS: dict[str, Callable[[StateStorage, Fence, str], object]] = {
    "raise_fence": lambda storage, fence, _: storage.raise_fence(fence),
    "stage": lambda storage, fence, _: stage_slice(
        storage, new_attempt(), 0, {b"k": b"new"}, fence=fence, txid=1, base=0
    ),
    "seal": lambda storage, fence, attempt: storage.seal(fence, attempt, _seal(storage, attempt)),
    "commit": lambda storage, fence, attempt: storage.commit(fence, 1, attempt),
    "rollback": lambda storage, fence, _: storage.rollback(fence),
    "write": lambda storage, fence, _: storage.write(fence, {b"k": b"new"}, CODEC),
}


class FenceConformance(ConformanceBase):
    """Only the holder of the highest fence may write; all others are refused."""

    @pytest.fixture
    def attempt(self, storage: StateStorage) -> str:
        """A namespace at txid 0 and fence (2, 3), with an attempt that is sealed for txid 1."""
        fence = Fence(2, 3)
        committed(storage, [(b"k", b"old")], fence=fence)
        return staged(storage, [(b"k", b"staged")], fence=fence, txid=1, base=0)

    def test_a_new_namespace_is_empty_and_only_an_accepted_step_creates_it(
        self, provider: StateProvider, storage: StateStorage, namespace: str
    ) -> None:
        assert storage.head() == NamespaceHead()
        assert storage.get_many([b"a", b"b"]) == [None, None]
        assert storage.get_many([b"a"], new_attempt()) == [None]
        assert list(storage.scan()) == list(storage.scan(new_attempt())) == []
        assert list(provider.namespaces(namespace)) == []
        refused(StaleAttempt, stage_slice, storage, new_attempt(), 0, {b"a": b"1"}, txid=5, base=4)
        assert list(provider.namespaces(namespace)) == []
        assert storage.head() == NamespaceHead()
        storage.raise_fence(NamespaceHead().fence)
        assert list(provider.namespaces(namespace)) == [namespace]

    def test_a_claim_takes_the_next_generation_and_starts_at_seq_0(self, storage: StateStorage) -> None:
        assert storage.claim() == Fence(1, 0)
        storage.raise_fence(Fence(1, 7))
        assert storage.claim() == Fence(2, 0)
        assert storage.head().fence == Fence(2, 0)

    def test_a_command_claims_the_next_generation_with_a_seq(self, storage: StateStorage) -> None:
        assert storage.claim(2**31 - 1) == Fence(1, 2**31 - 1)
        assert storage.head().fence == Fence(1, 2**31 - 1)
        assert storage.claim() == Fence(2, 0)

    @pytest.mark.parametrize("workers", ["threads", "processes"])
    def test_claims_at_one_time_are_never_equal(self, provider: StateProvider, namespace: str, workers: str) -> None:
        pool: Executor = ThreadPoolExecutor(3)
        if workers == "processes":
            if not provider.shared_by_processes:
                return
            pool = ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn"))
        with pool:
            futures = [pool.submit(_claim_often, provider, namespace, 10) for _ in range(3)]
            claims = [fence for future in futures for fence in future.result()]
        assert sorted(claims) == [Fence(generation, 0) for generation in range(1, 31)]

    def test_a_provider_that_processes_share_is_pickled_with_its_data_in_reach(
        self, provider: StateProvider, storage: StateStorage, namespace: str
    ) -> None:
        if not provider.shared_by_processes:
            return
        committed(storage, [(b"a", b"1")])
        copy = pickle.loads(pickle.dumps(provider))  # noqa: S301 (our own bytes)
        with closing(copy.open(namespace)) as other:
            assert other.get_many([b"a"]) == [b"1"]
            assert other.head() == storage.head()

    def test_a_fence_is_raised_and_read_at_once(self, storage: StateStorage, attempt: str) -> None:
        head = storage.raise_fence(Fence(2, 4))
        assert head.fence == Fence(2, 4)
        assert head == storage.head()
        assert head.attempts.keys() == {attempt}

    def test_the_generation_counts_before_the_seq(self, storage: StateStorage) -> None:
        storage.raise_fence(Fence(2, 0))
        refused(Fenced, storage.raise_fence, Fence(1, 99))
        assert storage.raise_fence(Fence(10, 0)).fence == Fence(10, 0)
        refused(Fenced, storage.raise_fence, Fence(9, 0))

    @pytest.mark.parametrize("step", _STEPS)
    @pytest.mark.parametrize("lower", [Fence(2, 2), Fence(1, 9), Fence(0, 0)])
    def test_a_lower_fence_is_refused_without_effect(
        self, storage: StateStorage, attempt: str, step: str, lower: Fence
    ) -> None:
        before = storage.head()
        assert refused(Fenced, _STEPS[step], storage, lower, attempt).namespace == storage.namespace
        assert storage.head() == before
        assert entries(storage) == {b"k": b"old"}
        assert entries(storage, attempt) == {b"k": b"staged"}

    @pytest.mark.parametrize("step", _STEPS)
    @pytest.mark.parametrize("fence", [Fence(2, 3), Fence(2, 4), Fence(3, 0)])
    def test_an_equal_or_higher_fence_is_accepted_and_kept(
        self, storage: StateStorage, attempt: str, step: str, fence: Fence
    ) -> None:
        _STEPS[step](storage, fence, attempt)
        assert storage.head().fence == fence

    def test_namespaces_do_not_touch_each_other(self, provider: StateProvider) -> None:
        first = new_namespace()
        names = [first, first + "1", first.replace(":", ":x"), first.removeprefix("conformance:")]
        for number, name in enumerate(names):
            with closing(provider.open(name)) as storage:
                committed(storage, [(b"k", b"%d" % number)], fence=Fence(number + 1, 0), txid=number)
                stage(storage, [(b"k", b"staged")], fence=Fence(number + 1, 0), txid=9, base=number)
        with closing(provider.open(first)) as storage:
            assert storage.rollback(FIRST) == 1
        for number, name in enumerate(names):
            with closing(provider.open(name)) as storage:
                head = storage.head()
                assert (head.fence, head.committed) == (Fence(number + 1, 0), number)
                assert len(head.attempts) == (0 if name == first else 1)
                assert entries(storage) == {b"k": b"%d" % number}

    def test_namespaces_are_listed_by_prefix_once_each(self, provider: StateProvider) -> None:
        first = new_namespace()
        others = [first + "1", first + ".a", first + ":b"]
        for name in (first, *others):
            with closing(provider.open(name)) as storage:
                storage.claim()
                committed(storage, [(b"k", b"v")])
        assert sorted(provider.namespaces(first)) == sorted([first, *others])
        assert list(provider.namespaces(first + ":")) == [first + ":b"]
        assert first in list(provider.namespaces())
        assert list(provider.namespaces(new_namespace())) == []

    def test_a_provider_says_where_its_data_is(self, provider: StateProvider) -> None:
        assert provider.describe().strip()


def _seal(storage: StateStorage, attempt: str) -> Seal:
    seal = storage.head().attempts[attempt].seal
    assert seal is not None
    return seal


def _claim_often(provider: StateProvider, namespace: str, times: int) -> list[Fence]:
    with closing(provider.open(namespace)) as storage:
        return [storage.claim() for _ in range(times)]
