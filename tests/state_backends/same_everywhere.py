"""Steps that the tests of several stores take alike."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from anchorbolt.errors import StaleAttempt
from anchorbolt.state_backends.contract import ReadPosition, StateProvider
from anchorbolt.testing.conformance.base import committed, entries, stage


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
