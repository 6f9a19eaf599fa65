"""Which faults strike in one run: each named point once, in a wave of its own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from anchorbolt.testing import Fault, FaultAction, FaultPoint, Victim
from tests.crash.job import write_waves

IN_RECOVERY = (FaultPoint.CLAIMED, FaultPoint.FENCES_RAISED, FaultPoint.RECOVERED)
AFTER_A_FAILURE = (FaultPoint.ROUND_FAILED, FaultPoint.ROLLED_BACK)

ON_DRIVER = tuple(point for point in FaultPoint if point.on_driver)
ON_WORKERS = tuple(point for point in FaultPoint if not point.on_driver)
IN_WAVES = tuple(point for point in ON_DRIVER if point not in IN_RECOVERY)

# One point in each phase of the protocol that the driver goes through.
DRIVER_PHASES = (
    FaultPoint.FENCES_RAISED,
    FaultPoint.ROUND_ENDED,
    FaultPoint.ROLLED_BACK,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACE_COMMITTED,
    FaultPoint.SINK_PUBLISHED,
    FaultPoint.COMMITTED,
)
# The steps of a wave between which a store may fail.
STEPS = (
    FaultPoint.TASK_ALIGNED,
    FaultPoint.SLICE_STAGED,
    FaultPoint.SEALED,
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACE_COMMITTED,
    FaultPoint.SINK_PUBLISHED,
)


def kills(points: Sequence[FaultPoint], victim: Victim) -> tuple[Fault, ...]:
    """Return faults that kill `victim` at each of these points, the n-th one in wave n + 1.

    The points of recovery are reached before any wave; those of a rolled back round after one has failed.
    """
    return tuple(fault for txid, point in enumerate(points, 1) for fault in _at(point, txid, victim))


def hangs(points: Sequence[FaultPoint], *, task_index: int | None = None) -> list[Fault]:
    """Return faults that let the n-th wave wait at the n-th point, a task's points in the bolt `count`."""
    return [
        Fault(point, FaultAction.HANG, txid=txid)
        if point.on_driver
        else Fault(point, FaultAction.HANG, txid=txid, component="count", task_index=task_index)
        for txid, point in enumerate(points, 1)
    ]


def input_for(folder: Path, points: Sequence[FaultPoint]) -> list[list[str]]:
    """Write the waves that faults at these points need, below `folder`, and return the words of each."""
    # A point between the slices of a commit is only there if it has several.
    large = points.index(FaultPoint.SLICE_APPLIED) + 1 if FaultPoint.SLICE_APPLIED in points else None
    return write_waves(folder, len(points) + 2, large)


def _at(point: FaultPoint, txid: int, victim: Victim) -> Iterator[Fault]:
    if point in IN_RECOVERY:
        # A worker is only there once one has worked: so in the second start at the earliest.
        yield Fault(point, nth=1 if victim is not Victim.WORKER else 2, victim=victim)
        return
    if point in AFTER_A_FAILURE:
        yield Fault(FaultPoint.TASK_ALIGNED, FaultAction.RAISE, component="count", txid=txid)
    yield Fault(point, victim=victim, txid=txid)
