"""Builds the checkpoint spout of a run: the protocol, for all engines."""

from anchorbolt.checkpoint.decision_log import CHECKPOINT_SPOUT_ID, DecisionLog
from anchorbolt.checkpoint.namespaces import Namespaces
from anchorbolt.checkpoint.outbox import Outbox
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.checkpoint.transaction import Run
from anchorbolt.engine.driver.rounds import Rounds, Runner
from anchorbolt.engine.submit.submission import Submission
from anchorbolt.state_backends.state import State
from anchorbolt.util.locations import Folder
from anchorbolt.util.retry import RetryPolicy


def checkpoint_spout(submission: Submission, runner: Runner, folder: Folder) -> CheckpointSpout:
    """Return the spout of a run whose streaming checkpoint location is `folder`; it has read nothing yet."""
    plan = submission.plan
    retry = RetryPolicy(submission.settings.message_timeout_secs * 1000)
    tasks = plan.namespaces()

    def custom_state(namespace: str) -> State | None:
        return plan.new_state(*tasks[namespace]) if namespace in tasks else None

    layout = Layout(
        topology=plan.topology,
        tasks=tasks,
        headers={namespace: plan.codec_header(namespace) for namespace in tasks},
        parallelism=plan.stateful_parallelism(),
        schema_versions=plan.state_schema_versions,
    )
    run = Run(
        layout=layout,
        log=DecisionLog(plan.provider.open(plan.namespace(CHECKPOINT_SPOUT_ID, 0)), folder, retry),
        tasks=Rounds(plan, runner, max_retries=submission.settings.max_batch_retries),
        namespaces=Namespaces(plan.provider, retry, custom_state, tasks),
        outbox=Outbox(folder, submission.sinks, runner.read_files),
    )
    return CheckpointSpout(run, retry, max_batch_retries=submission.settings.max_batch_retries)
