"""Builds the checkpoint spout of a run: the protocol, with the ports that all engines share."""

from anchorbolt.checkpoint.decision_log import CHECKPOINT_SPOUT_ID, DecisionLog
from anchorbolt.checkpoint.location import FolderCopy
from anchorbolt.checkpoint.ports import Layout, Ports
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.namespaces import ProviderNamespaces
from anchorbolt.engine.driver.outbox import SinkOutbox
from anchorbolt.engine.driver.retry import RetryPolicy
from anchorbolt.engine.driver.rounds import Rounds, Runner
from anchorbolt.engine.submit.submission import Submission
from anchorbolt.state_backends.state import State
from anchorbolt.util.locations import Folder


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
    log = DecisionLog(plan.provider.open(plan.namespace(CHECKPOINT_SPOUT_ID, 0)), FolderCopy(folder), retry)
    ports = Ports(
        tasks=Rounds(plan, runner, max_retries=submission.settings.max_batch_retries),
        namespaces=ProviderNamespaces(plan.provider, retry, custom_state, tasks),
        outbox=SinkOutbox(folder, submission.sinks, runner.read_files),
        retry=retry,
    )
    return CheckpointSpout(layout, log, ports, max_batch_retries=submission.settings.max_batch_retries)
