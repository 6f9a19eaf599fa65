"""Which faults strike in one run: each named point once, in a wave of its own."""

from collections.abc import Iterator, Sequence

from anchorbolt.testing import Fault, FaultAction, FaultPoint, Victim

IN_RECOVERY = (FaultPoint.CLAIMED, FaultPoint.FENCES_RAISED, FaultPoint.RECOVERED)
AFTER_A_FAILURE = (FaultPoint.ROUND_FAILED, FaultPoint.ROLLED_BACK)

OF_KAFKA = FaultPoint.SINK_MESSAGES_SENT
_ORDINARY = tuple(point for point in FaultPoint if not point.value.startswith("batch.") and point is not OF_KAFKA)
ON_DRIVER = tuple(point for point in _ORDINARY if point.on_driver)
ON_WORKERS = tuple(point for point in _ORDINARY if not point.on_driver)
IN_WAVES = tuple(point for point in ON_DRIVER if point not in IN_RECOVERY)

# The driver's, unless the provider's commits run on the executors.
COMMITS = (FaultPoint.SLICE_APPLIED, FaultPoint.NAMESPACE_COMMITTED)

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


def kills(
    points: Sequence[FaultPoint], victim: Victim, first_txid: int = 1, failing: FaultPoint = FaultPoint.TASK_ALIGNED
) -> Iterator[Fault]:
    """Yield faults that kill `victim` at each of these points, each in a wave of its own from `first_txid` on.

    The points of recovery are reached before any wave; those of a rolled back round after one has failed, because the
    bolt `count` raises at the point `failing`.
    """
    for txid, point in enumerate(points, first_txid):
        if point in IN_RECOVERY:
            # A worker is only there once one has worked: so in the second start at the earliest.
            yield Fault(point, nth=1 if victim is not Victim.WORKER else 2, victim=victim)
            continue
        if point in AFTER_A_FAILURE:
            yield Fault(failing, FaultAction.RAISE, component="count", txid=txid)
        yield Fault(point, victim=victim, txid=txid)


def hangs(points: Sequence[FaultPoint]) -> list[Fault]:
    """Return faults that let the n-th wave wait at the n-th point, a task's points in the bolt `count`."""
    return [
        Fault(point, FaultAction.HANG, txid=txid, component=None if point.on_driver else "count")
        for txid, point in enumerate(points, 1)
    ]
