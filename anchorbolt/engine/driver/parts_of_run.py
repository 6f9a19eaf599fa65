"""Makes the coordinator of the checkpoints and the sources of a run on any engine from its plan."""

from collections.abc import Sequence

from anchorbolt.bolts.column_types import schema_of
from anchorbolt.checkpoint.coordinator import CheckpointCoordinator
from anchorbolt.checkpoint.decision import Inputs
from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.checkpoint.letters.writers import dead_letter_writer
from anchorbolt.checkpoint.namespaces import Namespaces
from anchorbolt.checkpoint.outbox import Outbox
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.transaction import Run
from anchorbolt.engine.driver.live_savepoints import LiveSavepoints
from anchorbolt.engine.driver.rescaling_start import rescaler
from anchorbolt.engine.driver.rounds import Rounds
from anchorbolt.engine.driver.runner import Runner
from anchorbolt.engine.driver.state_commits import StateCommits
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.batch_source import BatchSource, pipeline_of
from anchorbolt.engine.sources.source import Source
from anchorbolt.files import Folder
from anchorbolt.spouts.transactional import kind_of
from anchorbolt.util.retry import RetryPolicy


def _inputs(plan: ExecutionPlan, bolt: str) -> Inputs:
    return tuple((source.component, source.stream, str(grouping)) for source, grouping in plan.graph.bolts[bolt].inputs)


def _batch_spout_text(plan: ExecutionPlan) -> str:
    """Return the id and kind of a transactional topology's spout for the decision record; empty without one."""
    kind = kind_of(plan.graph.spouts[plan.wiring.batch_spout].spout) if plan.wiring.batch_spout else None
    return "" if kind is None else f"{plan.wiring.batch_spout!r} ({kind.text})"


def checkpoints_and_sources(
    plan: ExecutionPlan, folder: Folder, runner: Runner, savepoints: LiveSavepoints | None = None
) -> tuple[CheckpointCoordinator, Sequence[Source]]:
    """Return the coordinator of a run, before it has read anything, and the run's sources, not yet open.

    `folder` is the streaming checkpoint location; `savepoints` serves commands while the topology runs.
    """
    retry = RetryPolicy(plan.settings.message_timeout_secs * 1000)
    layout = Layout(
        topology=plan.topology,
        tasks=plan.wiring.namespaces,
        headers={namespace: plan.header(namespace) for namespace in plan.wiring.namespaces},
        parallelism={component: plan.wiring.parallelism(component) for component in plan.wiring.stateful},
        rescales=plan.settings.rescale_state,
        groupings={name: _inputs(plan, name) for name in plan.wiring.stateful_bolts},
        columns={
            name: schema_of((field.name, field.type) for field in sink.schema)
            for name, sink in plan.sinks.items()
            if sink.schema is not None
        },
        schema_versions={component: plan.schema(component).version for component in plan.wiring.stateful_bolts},
        spout_tasks=plan.spouts_of_trees if plan.wiring.ackers else {},
        batch_spout=_batch_spout_text(plan),
        event_times=plan.event_times,
        committers={name: len(plan.wiring.tasks[name]) for name, spec in plan.graph.bolts.items() if spec.is_committer},
    )
    log = DecisionLog(plan.provider.open(record_namespace(plan.wiring.prefix)), folder, retry)
    pipeline, sources = None, runner.sources
    if runner.processing is not None:
        pipeline = pipeline_of(plan, log, folder, runner.processing)
        runner.processing.serve(pipeline)
        sources = [BatchSource(plan, pipeline)]
    commit_tasks = None
    if plan.provider.commit_carries_updates and runner.slots:
        commit_tasks = StateCommits(plan, runner, retry)
    run = Run(
        layout=layout,
        log=log,
        tasks=Rounds(plan, runner, pipeline, savepoints),
        namespaces=Namespaces(plan.provider, retry, plan.new_state, plan.wiring.namespaces, commit_tasks),
        outbox=Outbox(
            folder, plan.sinks, runner.read_files, plan.locations, retry, shared_by_machines=plan.shared_by_machines
        ),
        dead_letters=dead_letter_writer(plan.settings.dead_letter, plan.settings.provider, retry, plan.locations),
        clock=runner.clock,
        rescale=rescaler(plan) if plan.settings.rescale_state else None,
    )
    retries = plan.settings.max_batch_retries
    # A wave runs one extra round to find the tuple to leave out. A batch is left out in an extra last round.
    extra = int(plan.keeps_dead_letters and (bool(plan.wiring.batch_spout) or retries == 0))
    return CheckpointCoordinator(run, retry, max_batch_retries=retries, extra_rounds=extra), sources
