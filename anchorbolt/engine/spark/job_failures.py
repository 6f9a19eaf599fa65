"""Decides from Spark's message about a failed job whether the batch failed it, or a loss outside the batch.

If a Python worker died and its executor lives on, a tuple may have killed it: `WorkerLost`. If an executor, its
shuffled data, or a connection between Spark's own processes is lost, the machines are the cause: `InfrastructureLost`.
"""

import re
from collections.abc import Callable, Sequence

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.errors import InfrastructureLost, WaveFailed, WorkerLost
from anchorbolt.util.messages import begun, shortened

_STACK_LINE = re.compile(r"at [\w.$/<>]+\(.*\)$|\.\.\. \d+ more$|An error occurred while calling o\d+")

_CAUSED_BY = "Caused by: "

_LOST = re.compile(
    # An executor, with the reason that Spark was given. Spark blames a task for each exit with no other known cause,
    # even for a SIGKILL from outside.
    r"ExecutorLostFailure \(executor \S+ exited (?P<while_running>caused by one of the running tasks)?.*"
    # Data that an executor had shuffled or kept.
    r"|TaskResultLost.*|(?:Metadata)?FetchFailed.*|.*with indeterminate output was failed and retried.*"
    r"|Failed to get broadcast_\d+.*"
    # A connection.
    r"|Could not find CoarseGrainedScheduler.*"
    r"|org\.apache\.spark\.(?:rpc|network|storage\.BlockFetch)[\w.$]*(?:Exception|Error).*"
)
# The rest of Spark's message is Python's output, and may quote anything.
_PYTHON_SAID = re.compile(r"Traceback \(most recent call last\):(?s:.*)")
_LOST_IN_PYTHON = re.compile(
    rf"^{re.escape(f'{InfrastructureLost.__module__}.{InfrastructureLost.__qualname__}')}: .*", re.M
)
_WORKER_DIED = re.compile(r"Python worker exited unexpectedly|java\.io\.EOFException")
# Python's output if native code crashes, with the bolt's own frames.
_CRASH = re.compile(
    r"(Fatal Python error: .*)"
    r'(?s:.*?\n(Current thread .*?\n)(?=  File "[^"]*/anchorbolt/|\n))?'
)
_NO_CAUSE = (
    "It was killed (by the kernel if memory ran out, or by topology.task.timeout.secs), a bolt ended it with os._exit, "
    "or it crashed in native code (spark.python.worker.faulthandler.enabled=true would show where). Look at its last "
    "output and at the kernel's log (dmesg)"
)


def failure_in(text: str, what: str, txid: int, task: Callable[[], str], unheard: Sequence[TaskKey]) -> WaveFailed:
    """Return the failure of a job.

    Args:
        text: Spark's message, with stack traces.
        what: The action that failed, for the message.
        txid: The wave's transaction id.
        task: Names the task that the message is about. Called only if something was lost.
        unheard: The tasks that have not reported.
    """
    failed, said = f"Spark could not {what} of txid {txid}: ", _without_frames(text)
    if lost := _loss_in(said):
        return InfrastructureLost(
            f"{failed}an executor was lost, or what it had shuffled, or a connection, in the end at "
            f"{task().rstrip(',')}: {begun(lost[0], 400)}. If the run ends, start it again: it resumes after the last "
            "committed wave.",
            txid=txid,
            while_running=lost.groupdict().get("while_running") is not None,
        )
    if not _WORKER_DIED.search(text):
        return WaveFailed(failed + said, txid=txid)
    crash = _CRASH.search(text)
    cause, stack = crash.groups(default="") if crash else (_NO_CAUSE, "")
    return WorkerLost(
        f"{stack}{failed}the worker process of {task()} ended before it reported. {cause}. No report from: "
        f"{shortened(unheard, 400)}. If the run ends, start it again: it resumes after the last committed wave.",
        txid=txid,
    )


def is_loss(text: str) -> bool:
    """Return whether Spark's message reports a loss, not a failure of a task."""
    return _loss_in(_without_frames(text)) is not None


def cause_in(text: str) -> str:
    """Return the line of Spark's message with the innermost cause, without the lines of py4j."""
    said = _without_frames(text).splitlines() or [""]
    causes = [line.removeprefix(_CAUSED_BY) for line in said if line.startswith(_CAUSED_BY)]
    return causes[-1] if causes else said[0]


def _loss_in(said: str) -> re.Match[str] | None:
    return _LOST.search(_PYTHON_SAID.sub("", said)) or _LOST_IN_PYTHON.search(said)


def _without_frames(text: str) -> str:
    """Remove the lines of py4j itself and the stack of a Java exception, but not its causes."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    return "\n".join(line for line in lines if line and not _STACK_LINE.match(line))
