"""Steps that the tests of several stores take alike."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any
from unittest import mock

import pytest

from anchorbolt.errors import StaleAttempt, StateUnavailable
from anchorbolt.state_backends.contract import ReadPosition, StateProvider
from anchorbolt.testing.conformance.base import committed, entries, stage


@contextmanager
def cut_off(connected: Any, method: str, after: int, only: object = None) -> Iterator[None]:
    """Let the connection break at a call of a method, after so many calls of it, or of those with one argument."""
    calls = count()

    def call_or_break(*arguments: Any, **_: Any) -> Any:
        if (only is None or only in arguments) and next(calls) == after:
            raise StateUnavailable("the connection broke")
        return mock.DEFAULT

    whole = getattr(connected, method)
    with (
        mock.patch.object(connected, method, wraps=whole, side_effect=call_or_break),
        pytest.raises(StateUnavailable, match="broke"),
    ):
        yield


def finish_half_applied(provider: StateProvider, namespace: str, attempt: str, expected: dict[bytes, bytes]) -> None:
    """Let another driver finish the commit of txid 1 over txid 0: it is seen, and nothing else goes."""
    with closing(provider.open(namespace)) as storage:
        fence = storage.claim()
        head = storage.raise_fence(fence)
        assert storage.head() == head
        assert head.committed == 0
        assert head.attempts.keys() == {attempt}
        assert entries(storage, attempt) == expected
        for step in (
            lambda: storage.rollback(fence),
            lambda: stage(storage, [(b"a", b"1")], fence=fence, txid=1, base=0),
            lambda: storage.commit(fence, 1, "0" * 32),
        ):
            with pytest.raises(StaleAttempt, match="half applied"):
                step()
        assert storage.head() == head
        # A hook that is called before the commit is finished may read.
        assert storage.get_many([b"no such key"], None, ReadPosition(0, head.winner)) == [None]
        storage.commit(fence, 1, attempt)
        storage.commit(fence, 1, attempt)
        assert entries(storage) == expected
        assert storage.head().committed == 1


def work_in_threads(provider: StateProvider, prefix: str, txids: int) -> None:
    """Commit and read in four threads at once, each in its own namespace: none gets another one's answers."""
    barrier = threading.Barrier(4)

    def work(number: int) -> dict[bytes, bytes]:
        with closing(provider.open(f"{prefix}{number}")) as storage:
            barrier.wait()
            for txid in range(txids):
                committed(storage, [(b"%d" % txid, b"%d" % number)], txid=txid, base=txid - 1)
            return entries(storage)

    with ThreadPoolExecutor(4) as threads:
        for number, found in enumerate(threads.map(work, range(4))):
            assert found == {b"%d" % txid: b"%d" % number for txid in range(txids)}
