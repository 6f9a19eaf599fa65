"""The current activity of a topology, its waits, and its health."""

from __future__ import annotations

from msgspec import structs

from anchorbolt.ui.answers import NowOfTopology
from anchorbolt.ui.model.observation import Observation
from anchorbolt.ui.model.text import storm_status

_ENDED = {
    "STOPPED": "was stopped",
    "FINISHED": "has finished",
    "FAILED": "has failed",
    "UNKNOWN": "has no end in its history: its driver runs elsewhere, or was killed",
}


def readiness(seen: Observation) -> tuple[bool, str]:
    """Return whether the topology is healthy, and why or why not.

    It is unhealthy while it starts, after its end, and if a running wave or a wait delays its commit for longer than
    `topology.health.max.checkpoint.age.secs`. An idle or paused topology is healthy.
    """
    if seen.status == "STARTING":
        waits = f", and {_cause(seen)}" if seen.now.waiting else ""
        return False, f"the topology starts: it has not recovered yet{waits}"
    if seen.status in _ENDED:
        error = "" if seen.failure is None else f": {seen.failure.error}"
        return False, f"the run {_ENDED[seen.status]}{error}"
    now, most = seen.now, seen.max_checkpoint_age_s
    since = [*(each.seconds for each in now.waiting), *([] if now.wave is None else [now.wave.seconds])]
    stalled = min(now.commit_age_secs or 0.0, max(since, default=0.0))
    if stalled > most:
        return False, f"no commit for {stalled:.0f} s, more than {most:g} s: {_cause(seen)}"
    if seen.status == "PAUSED":
        return True, "pausing" if now.pausing else "paused"
    if now.waiting:
        return True, f"no commit for {stalled:.0f} s, of at most {most:g} s: {_cause(seen)}"
    return True, "idle" if not since else "the last commit is recent"


def now(seen: Observation, *, can_act: bool = False) -> NowOfTopology:
    """Return the answer of `/api/v1/topology/{id}/now`."""
    ready, reason = readiness(seen)
    return NowOfTopology(
        **structs.asdict(seen.now),
        at=seen.at,
        status=storm_status(seen.status),
        is_live=seen.is_live,
        ready=ready,
        reason=reason,
        can_act=can_act,
        txid=seen.txid,
        generation=seen.generation,
        failure=seen.failure,
    )


def _cause(seen: Observation) -> str:
    current = seen.now
    if current.waiting:
        return "waits for " + ", ".join(each.waits_for for each in current.waiting)
    if current.wave is None:
        return "no wave runs"
    failed = f", after: {current.wave.last_failure}" if current.wave.last_failure else ""
    wave = f"wave {current.wave.txid} is in {current.wave.phase}, round {current.wave.round}{failed}"
    bolt = next((each for each in current.long_calls if each.kind == "bolt"), None)
    return wave if bolt is None else f"{wave}; it waits for bolt {bolt.component!r}, task {bolt.task}"
