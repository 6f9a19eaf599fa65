"""Counts the blobs between tasks, so that the driver can see that all that were sent were received. Pure.

A task's input ends when Spark's shuffle has no more for it. Whether that was all of it, and from the attempts that won,
shows in the sums: of what all tasks sent to a component, and of what its tasks received. A task's share has the same
few bytes whatever the number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from anchorbolt.checkpoint.ports import TaskKey

_MASK = (1 << 64) - 1


class Tally(NamedTuple):
    """A number of blobs, and a sum that shows from which attempts of which tasks to which tasks they went."""

    blobs: int = 0
    digest: int = 0  # 64 bits; the order of the blobs has no influence

    def plus(self, other: Tally) -> Tally:
        return Tally(self.blobs + other.blobs, (self.digest + other.digest) & _MASK)


NOTHING = Tally()


def tally(sent: Iterable[tuple[TaskKey, str, TaskKey, int]]) -> Tally:
    """Count blobs: from a task, its attempt, to a task, and how many; each pair of tasks comes once."""
    blobs = digest = 0
    for (source, source_index), attempt, (receiver, index), number in sent:
        text = f"{source} {source_index} {attempt} {receiver} {index} {number}"  # ids and attempts have no blanks
        blobs += number
        digest += int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
    return Tally(blobs, digest & _MASK)
