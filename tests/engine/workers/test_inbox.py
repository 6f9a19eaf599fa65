"""Blobs that wait leave in the order in which they came, and those in memory never exceed the limit."""

from collections import deque
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anchorbolt.engine.workers.inbox import Inbox, Space

INBOXES = st.integers(0, 1)


class Inboxes(RuleBasedStateMachine):
    """Two inboxes that share one space, beside plain deques."""

    @initialize(most=st.integers(0, 60))
    def open(self, most: int) -> None:
        self.space = Space(most, "no such folder")
        self.inboxes = [Inbox(self.space), Inbox(self.space)]
        self.models: list[deque[tuple[int, bytes]]] = [deque(), deque()]

    @rule(inbox=INBOXES, destination=st.integers(0, 2**32 - 1), payload=st.binary(max_size=30))
    def put(self, inbox: int, destination: int, payload: bytes) -> None:
        held, spilled = self.space.held, self.space.spilled
        self.inboxes[inbox].put(destination, payload)
        self.models[inbox].append((destination, payload))
        is_held = self.space.spilled == spilled
        assert self.space.held - held == (len(payload) if is_held else 0)
        assert is_held or self.space.spilled - spilled == len(payload) + 8

    @precondition(lambda self: any(self.models))
    @rule(inbox=INBOXES)
    def take(self, inbox: int) -> None:
        if self.models[inbox]:
            assert self.inboxes[inbox].take() == self.models[inbox].popleft()

    @rule(inbox=INBOXES)
    def close(self, inbox: int) -> None:
        self.inboxes[inbox].close()
        self.models[inbox].clear()

    @invariant()
    def the_memory_is_limited(self) -> None:
        assert [bool(inbox) for inbox in self.inboxes] == [bool(model) for model in self.models]
        assert 0 <= self.space.held <= self.space.most
        if not any(self.models):
            assert self.space.held == 0

    def teardown(self) -> None:
        for inbox in getattr(self, "inboxes", ()):
            inbox.close()
        assert not hasattr(self, "space") or self.space.held == 0


TestInboxes = Inboxes.TestCase


def test_a_blob_that_fits_waits_behind_those_in_the_file() -> None:
    space = Space(10, "")
    inbox = Inbox(space)
    blobs = [(1, b"123456"), (2, b"123456"), (3, b"1")]
    for blob in blobs:
        inbox.put(*blob)
    assert (space.held, space.spilled) == (6, 8 + 6 + 8 + 1)
    assert [inbox.take() for _ in blobs] == blobs
    inbox.close()


def test_the_file_has_no_name_and_is_cut_when_it_is_empty(tmp_path: Path) -> None:
    inbox = Inbox(Space(0, str(tmp_path)))
    for _ in range(3):
        inbox.put(1, b"x" * 100)
        assert inbox.take() == (1, b"x" * 100)
        assert inbox._file is not None
        assert inbox._file.seek(0, 2) == 0
    assert list(tmp_path.iterdir()) == []
    inbox.close()


def test_a_file_that_is_shorter_than_it_was_written_is_an_error() -> None:
    inbox = Inbox(Space(0, ""))
    inbox.put(1, b"x" * 100)
    assert inbox._file is not None
    inbox._file.truncate(50)
    with pytest.raises(OSError, match="shorter"):
        inbox.take()
    inbox.close()
