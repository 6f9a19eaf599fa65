"""Judges how an actor has ended: a process may fail only as the faults that struck it explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anchorbolt import errors
from anchorbolt.checkpoint.state_machine import Phase
from tests.simulation.invariants import CHECKPOINT_NAMESPACE
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.world import World


def halts(world: World, name: str, failure: BaseException) -> bool:
    """Return whether the actor of this name has halted the run, for good reason. Raises `Violation`."""
    if not isinstance(failure, errors.AnchorboltError):
        raise Violation(f"{name} ended with {failure!r}") from failure
    if "fault of Anchorbolt" in failure.message:
        raise Violation(f"{name} found a fault: {failure.message}") from failure
    if isinstance(failure, errors.StateRegressed):
        if not world.regressed:
            raise Violation(f"{name} halted, and the store had not regressed") from failure
        return True
    if isinstance(failure, errors.Fenced):
        if not world.regressed and world.store.contents[CHECKPOINT_NAMESPACE].metadata.fence.generation < 2:
            raise Violation(f"{name} was fenced, and there is no newer driver") from failure
    elif not isinstance(failure, errors.StateUnavailable) and not _is_excused(world, failure):
        raise Violation(f"{name} ended with {failure!r}") from failure
    elif isinstance(failure, errors.WaveFailed) and not world.schedule.actors and not world.regressed:
        record = world.invariants.record()
        if record is None or record.state.phase is not Phase.COMMITTING:  # otherwise its tasks could not commit it
            world.invariants.nothing_staged()
    return False


def _is_excused(world: World, failure: errors.AnchorboltError) -> bool:
    """A driver may give up a wave that faults struck too often, and one of two may come too early or too late."""
    if isinstance(failure, errors.QueryChanged):
        return world.drivers > 1 and "is a new one" in failure.message
    if isinstance(
        failure, errors.BoltError | errors.SpoutError
    ):  # a tuple on which a bolt raises takes one of the wave's rounds
        return world.scenario.may_fail_for_good
    return isinstance(failure, errors.WaveFailed) or (world.regressed and isinstance(failure, errors.StaleAttempt))
