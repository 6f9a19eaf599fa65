"""What the topology does now, whom it waits for, and whether it is healthy."""

from __future__ import annotations

from typing import Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.sources.throttle import WINDOW_S, Throttle
from anchorbolt.ui.model.observation import Observation
from anchorbolt.ui.model.text import storm_status

_MOST_NAMED = 50
_MOST_CALLS = 20
_ENDED = {
    "STOPPED": "was stopped",
    "FINISHED": "has finished",
    "FAILED": "has failed",
    "UNKNOWN": "has no end in its history: its driver runs elsewhere, or was killed",
}


def readiness(seen: Observation) -> tuple[bool, str]:
    """Return whether the topology is healthy, and why or why not.

    It is not while it starts, after its end, and if a wave that runs, or something that it waits for, keeps it from a
    commit for longer than `topology.health.max.checkpoint.age.secs`. An idle or paused topology is healthy.
    """
    if seen.status == "STARTING":
        waits = f", and waits for {', '.join(seen.now.waiting)}" if seen.now.waiting else ""
        return False, f"the topology starts: it has not recovered yet{waits}"
    if seen.status in _ENDED:
        error = "" if seen.failure is None else f": {seen.failure['error']}"
        return False, f"the run {_ENDED[seen.status]}{error}"
    now, most = seen.now, seen.max_checkpoint_age_s
    since = [*now.waiting.values(), *([] if now.wave is None else [now.wave.seconds])]
    stalled = min(now.commit_age_s, max(since, default=0.0))
    if stalled > most:
        return False, f"no commit for {stalled:.0f} s, more than {most:g} s: {_cause(seen)}"
    if seen.status == "PAUSED":
        return True, "pausing" if now.pausing else "paused"
    if now.waiting:
        return True, f"no commit for {stalled:.0f} s, of at most {most:g} s: {_cause(seen)}"
    return True, "idle" if not since else "the last commit is recent"


def now(seen: Observation) -> dict[str, Any]:
    """Return the answer of `/api/v1/topology/{id}/now`."""
    current = seen.now
    wave, throttle = current.wave, current.throttle
    ready, reason = readiness(seen)
    return {
        "at": seen.at,
        "status": storm_status(seen.status),
        "isLive": seen.is_live,
        "ready": ready,
        "reason": reason,
        "pausing": current.pausing,
        "txid": seen.txid,
        "generation": seen.generation,
        "commitAgeSecs": round(current.commit_age_s, 1) if seen.is_live else None,
        "wave": None
        if wave is None
        else {
            "txid": wave.txid,
            "phase": wave.phase,
            "round": wave.round,
            "lastFailure": wave.failure,
            "seconds": round(wave.seconds, 1),
            "tasksEnded": current.tasks_ended,
            "tasksTotal": current.tasks_all,
            "waitsForTasks": [{"component": name, "task": index} for name, index in current.unended[:_MOST_NAMED]],
            "waitsForTasksTotal": len(current.unended),
        },
        "waiting": [{"for": name, "seconds": round(seconds, 1)} for name, seconds in current.waiting.items()],
        "losses": current.losses,
        "messagesInFlight": current.messages_in_flight if seen.is_live else None,
        "throttled": current.throttled,
        "throttledBy": None if throttle is None else _task(throttle.by),
        "throttle": None if throttle is None else _throttle(throttle, seen.uptime_s),
        "oldestMessageSecs": round(current.oldest_message_s, 1) if seen.is_live else None,
        "longCalls": [
            {
                "kind": each.kind,
                "component": each.component,
                "task": each.task_index,
                "method": each.method,
                "seconds": round(each.seconds, 1),
                "stack": each.stack,
            }
            for each in current.long_calls[:_MOST_CALLS]
        ],
        "offsetsBehind": current.offsets_behind,
        "filesWaiting": current.files_waiting,
        "sources": [
            {
                "spout": spout,
                "offsetsBehind": current.source_offsets_behind.get(spout),
                "filesWaiting": current.source_files_waiting.get(spout),
            }
            for spout in dict.fromkeys((*current.source_offsets_behind, *current.source_files_waiting))
        ],
        "failure": seen.failure,
    }


def _throttle(throttle: Throttle, uptime_s: float) -> dict[str, Any]:
    return {
        "reason": throttle.reason,
        "by": _task(throttle.by),
        "seconds": round(throttle.seconds, 1),
        "windowSeconds": round(throttle.window_seconds, 1),
        "ofSeconds": round(min(uptime_s, WINDOW_S), 1),
        "spouts": [
            {"spout": each.spout, "messagesInFlight": each.in_flight, "most": each.most, "tasksHeld": each.held}
            for each in throttle.spouts
        ],
    }


def _task(task: TaskKey | None) -> dict[str, Any] | None:
    return None if task is None else {"component": task[0], "task": task[1]}


def _cause(seen: Observation) -> str:
    current = seen.now
    if current.waiting:
        return "waits for " + ", ".join(current.waiting)
    if current.wave is None:
        return "no wave runs"
    failed = f", after: {current.wave.failure}" if current.wave.failure else ""
    wave = f"wave {current.wave.txid} is in {current.wave.phase}, round {current.wave.round}{failed}"
    bolt = next((each for each in current.long_calls if each.kind == "bolt"), None)
    return wave if bolt is None else f"{wave}; it waits for bolt {bolt.component!r}, task {bolt.task_index}"
