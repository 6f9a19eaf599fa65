"""Counts the blobs between tasks, so that the driver can check that all sent blobs were received. Pure.

A task's input ends when Spark's shuffle has no more for it. To check that the input was complete, and from the winning
attempts, the driver compares two sums: of the blobs that all tasks sent to a component, and of the blobs that its tasks
received. A task's part of a sum takes a few bytes, whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey

_MASK = (1 << 64) - 1


class Tally(NamedTuple):
    """A number of blobs, and a digest of their senders, the senders' attempts, and their receivers."""

    blobs: int = 0
    digest: int = 0  # 64 bits; does not depend on the order of the blobs

    def plus(self, other: Tally) -> Tally:
        return Tally(self.blobs + other.blobs, (self.digest + other.digest) & _MASK)


NOTHING = Tally()


def tally(sent: Iterable[tuple[TaskKey, str, TaskKey, int]]) -> Tally:
    """Add up (sending task, its attempt, receiving task, number of blobs); each pair of tasks must appear once."""
    blobs = digest = 0
    for (source, source_index), attempt, (receiver, index), number in sent:
        text = f"{source} {source_index} {attempt} {receiver} {index} {number}"  # ids and attempts contain no blanks
        blobs += number
        digest += int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    return Tally(blobs, digest & _MASK)
