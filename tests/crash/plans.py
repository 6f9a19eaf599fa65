"""Which faults strike in one run: every named point once, each in a wave of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anchorbolt.testing import Fault, FaultAction, FaultPoint, Victim

__all__ = ["IN_RECOVERY", "ON_DRIVER", "ON_WORKERS", "kills", "waves_for"]

IN_RECOVERY = (FaultPoint.CLAIMED, FaultPoint.FENCES_RAISED, FaultPoint.RECOVERED)
_AFTER_A_FAILURE = (FaultPoint.ROUND_FAILED, FaultPoint.ROLLED_BACK)

ON_DRIVER = tuple(point for point in FaultPoint if point.on_driver)
ON_WORKERS = tuple(point for point in FaultPoint if not point.on_driver)


def kills(points: Sequence[FaultPoint], victim: Victim) -> tuple[Fault, ...]:
    """Return faults that kill `victim` at each of these points, the n-th one in wave n + 1.

    The points of recovery are reached before any wave; those of a rolled back round after one has failed.
    """
    return tuple(fault for txid, point in enumerate(points, 1) for fault in _at(point, txid, victim))


def waves_for(points: Sequence[FaultPoint]) -> int:
    """Return how many waves a run with faults at these points must have."""
    return len(points) + 2


def _at(point: FaultPoint, txid: int, victim: Victim) -> Iterator[Fault]:
    if point in IN_RECOVERY:
        # A worker is only there once one has worked: so in the second start at the earliest.
        yield Fault(point, nth=1 if victim is not Victim.WORKER else 2, victim=victim)
        return
    if point in _AFTER_A_FAILURE:
        yield Fault(FaultPoint.TASK_ALIGNED, FaultAction.RAISE, component="count", txid=txid)
    yield Fault(point, victim=victim, txid=txid)
