"""An acker's report to the driver about one wave. Pickled."""

from dataclasses import dataclass, field
from typing import NamedTuple

from anchorbolt.tracking.sorted_roots import NO_ROOTS, Roots
from anchorbolt.tracking.stored_trees import OpenTree


class Failure(NamedTuple):
    """A tree that failed; the lowest component, index and reason if several tasks failed it."""

    root: int
    component: str
    task_index: int
    reason: str
    spout_task: int = -1  # for a tree of an earlier wave, see `OpenTree`
    msg_id: bytes | None = None  # for a tree of an earlier wave


@dataclass(eq=False)
class Verdict:
    """The trees that need the driver's attention, each in at most one of `opened`, `completed`, `timed_out`, `failed`.

    Leaves out trees that were opened and completed in the wave. Arrays of roots are in ascending order.
    """

    opened: Roots = field(default_factory=lambda: NO_ROOTS)  # opened in this wave, and still open
    completed: Roots = field(default_factory=lambda: NO_ROOTS)  # opened in an earlier wave
    completed_trees: list[OpenTree] = field(default_factory=list)  # parallel to `completed`, as they were stored
    timed_out: Roots = field(default_factory=lambda: NO_ROOTS)  # opened in an earlier wave
    timed_out_trees: list[OpenTree] = field(default_factory=list)  # parallel to `timed_out`, with their last holder
    reset: Roots = field(default_factory=lambda: NO_ROOTS)  # opened in an earlier wave, still open, with a new time-out
    failed: list[Failure] = field(default_factory=list)  # opened in this wave or in an earlier one
