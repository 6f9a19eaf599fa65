"""The rounds of a wave on any engine: runs them, checks and adds up their reports, and runs COMMIT and ROLLBACK."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from anchorbolt.bolts.base import BaseStatefulBolt
from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.losses import Losses
from anchorbolt.checkpoint.ports import BatchTry, PreparedRound, Round, TaskKey
from anchorbolt.checkpoint.state_machine import Action, CheckpointTuple
from anchorbolt.checkpoint.times import NO_TIMES, TimesOfWave
from anchorbolt.engine.driver.runner import Runner
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import NOTHING, Tally, TaskReport
from anchorbolt.errors import AnchorboltError, BoltError, InfrastructureLost, WaveFailed, WorkerLost

if TYPE_CHECKING:
    from anchorbolt.engine.driver.batch_tries import BatchTries
    from anchorbolt.engine.driver.isolation import Isolation
    from anchorbolt.engine.driver.live_savepoints import LiveSavepoints
    from anchorbolt.transactional.batches.pipeline import Pipeline


_log = logging.getLogger("anchorbolt.engine")

_ONLY_REPEAT = PreparedRound({}, {}, (), (), repeat=True)

_HOOKS = {Action.COMMIT: "pre_commit", Action.ROLLBACK: "pre_rollback"}


class Rounds:
    """`checkpoint.ports.Tasks` on any engine.

    A round of a transactional topology takes a batch from the processing phase, where several batches may be at a time,
    and runs its commit phase. `plan` has the tasks of the processing phase, and the runner has those of the commit
    phase. Any other topology has no processing phase: a round runs all tasks.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        runner: Runner,
        pipeline: Pipeline | None = None,
        savepoints: LiveSavepoints | None = None,
    ) -> None:
        """Create it; `pipeline` is that of a transactional topology."""
        self._savepoints = savepoints
        self._plan = plan
        self._wave_plan = plan if pipeline is None else plan.commit_phase()
        self._runner = runner
        self._pipeline = pipeline
        self._hooks = Hooks(self._wave_plan, runner)
        self._spouts = None if runner.spouts is None else runner.spouts.rich
        self._checked = -1  # the txid of the wave that checks each emit, because one of its buffers was refused
        self._isolation: Isolation | None = None  # of tuples that fail
        self._tries: BatchTries | None = None
        if pipeline is not None:
            from anchorbolt.engine.driver.batch_tries import BatchTries

            self._tries = BatchTries(plan, pipeline)
        elif plan.keeps_dead_letters:
            from anchorbolt.engine.driver.isolation import Isolation  # NumPy: only where it is needed

            self._isolation = Isolation(plan.settings.most_dead_letters, self._spouts)

    def prepare(self, current: Round) -> PreparedRound:
        instead = None if self._tries is None else self._tries.instead_of(current)
        if instead is not None:
            return instead
        replayed: Mapping[str, str] = {}
        if self._runner.spouts is not None:
            current = replace(current, ticks=self._runner.spouts.ticks.bolts)
            replays = self._runner.spouts.replays
            replayed = {} if replays is None else replays.known
        if current.txid == self._checked:
            current = replace(current, checks=True)
        if self._savepoints is not None and (keeping := self._savepoints.keeping):
            current = replace(current, savepoint=keeping)
        if self._isolation is not None:
            current = self._isolation.begin(current, replays=any(replayed.values()))
        try:
            done = self._run(current)
        except AnchorboltError as error:
            is_repeated = self._isolation is not None and self._isolation.failed(error)
            if self._tries is not None:
                self._tries.failed(error, current)
            if error.found_late and not current.checks:
                self._check_from_now_on(current.txid)
                is_repeated = True
            if is_repeated:
                return _ONLY_REPEAT
            raise
        reports = done.reports
        if self._isolation is not None and self._isolation.is_probe(reports):
            return _ONLY_REPEAT
        spouts = self._spouts
        repeat = spouts is not None and spouts.judge(reports)
        repeat = (self._isolation is not None and self._isolation.judge(reports)) or repeat
        if repeat and spouts is not None:
            spouts.leave_out(reports)
        letters = [] if repeat else self._dead_letters(reports)
        return replace(
            done,
            acked={} if spouts is None or repeat else spouts.book.acked(),
            dead_letters=tuple(letters),
            replayed=replayed,
            repeat=repeat,
        )

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        if self._pipeline is not None and checkpoint.action is Action.ROLLBACK:
            self._pipeline.give_up(current.txid)
        self._hooks.send(checkpoint, current)

    def _check_from_now_on(self, txid: int) -> None:
        self._checked = txid
        if self._pipeline is not None:
            self._pipeline.checked = txid

    def _run(self, current: Round) -> PreparedRound:
        try:
            if self._pipeline is None:
                return _prepared(self._plan, self._run_tasks(self._plan, current))
            return self._run_batch(self._pipeline, current)
        except InfrastructureLost as error:
            raise _suspected(error, current) from error.__cause__

    def _run_batch(self, pipeline: Pipeline, current: Round) -> PreparedRound:
        with _failing_as_wave("the processing phase", current.txid):
            batch, processed = pipeline.take(current.txid)
        processed = check_round(self._plan, processed, current.txid)
        reports: Sequence[TaskReport] = ()
        if self._wave_plan.wiring.levels:
            hand_offs = {each.task: kept for each in processed if (kept := each.outcome.hand_off) is not None}
            in_commit = BatchTry(batch.attempt, batch.fence, current.txid - 1, batch.metadata.whole, hand_offs)
            reports = self._run_tasks(self._wave_plan, replace(current, batch=in_commit))
        return replace(
            _prepared(self._plan, reports),
            reports=[*processed, *reports],
            batch=batch.metadata.encode(),
            journals=frozenset(report.component for report in reports if report.outcome.keeps_journal),
        )

    def _run_tasks(self, plan: ExecutionPlan, current: Round) -> Sequence[TaskReport]:
        with _failing_as_wave("a round", current.txid):
            reports = self._runner.run_round(current)
        return check_round(plan, reports, current.txid)

    def _dead_letters(self, reports: Sequence[TaskReport]) -> list[DeadLetter]:
        letters = [] if self._spouts is None else self._spouts.book.dead_letters()
        if self._isolation is not None:
            letters += self._isolation.letters(reports)
        most = self._plan.settings.most_dead_letters
        if len(letters) > most:
            first = letters[0]
            raise BoltError(
                f"{len(letters)} tuples of one wave failed for good, and topology.dead.letter.max.per.wave is {most}. "
                f"The first one was failed by {first.component!r}, task {first.task_index}: {first.reason}",
                component=first.component,
                task_index=first.task_index,
            )
        return letters


@contextmanager
def _failing_as_wave(what: str, txid: int) -> Iterator[None]:
    """Raise `WaveFailed` in place of any exception that is not one of Anchorbolt's."""
    try:
        yield
    except AnchorboltError:
        raise
    except Exception as error:
        raise WaveFailed(
            f"the engine could not finish {what} of txid {txid}: {type(error).__name__}: {error}", txid=txid
        ) from error


def _prepared(plan: ExecutionPlan, reports: Sequence[TaskReport]) -> PreparedRound:
    """Return the prepared round from its tasks' reports."""
    return PreparedRound(
        winners={
            plan.wiring.namespace(report.task): Winner(report.attempt, report.outcome.base, report.outcome.seal)
            for report in reports
            if report.outcome.seal is not None
        },
        task_winners={report.task: report.attempt for report in reports if report.component in plan.wiring.stateful},
        files=tuple(file for report in reports for file in report.outcome.files),
        reports=reports,
        times=_times(plan, reports),
    )


def _times(plan: ExecutionPlan, reports: Sequence[TaskReport]) -> dict[str, TimesOfWave]:
    """Return the times of the bolts that have timers, event time or a TTL now."""
    by_bolt: defaultdict[str, list[TimesOfWave]] = defaultdict(list)
    for report in reports:
        by_bolt[report.component].append(report.outcome.times)
    found = {bolt: TimesOfWave.of_tasks(times) for bolt, times in by_bolt.items()}
    return {bolt: times for bolt, times in found.items() if times != NO_TIMES or plan.has_time(bolt)}


def check_round(plan: ExecutionPlan, reports: Sequence[TaskReport], txid: int) -> Sequence[TaskReport]:
    """Check that every task prepared, and that exactly the blobs which the winning attempts sent were received.

    Returns one report of each task: a report may arrive twice, but an acker's results must count once.

    Raises:
        AnchorboltError: A task's failure. Of several, a `BoltError` is raised first, and a `WaveFailed` last.
        WaveFailed: A task is missing.
        InfrastructureLost: A task reported two attempts, or did not receive exactly the blobs sent to it.
    """
    failures = [report.failure for report in reports if report.failure is not None]
    if failures:
        raise min(failures, key=_severity)
    attempts: dict[TaskKey, str] = {}
    for report in reports:
        if attempts.setdefault(report.task, report.attempt) != report.attempt:
            raise InfrastructureLost(f"task {report.task} reported twice in txid {txid}: Spark ran it again", txid=txid)
    missing = [task for level in plan.wiring.levels for task in level if task not in attempts]
    if missing:
        raise WaveFailed(f"no report from {missing} in txid {txid}", txid=txid)
    once = {report.task: report for report in reports}
    sent, received = _traffic(once.values())
    for component in {**sent, **received}:
        if sent.get(component, NOTHING) != received.get(component, NOTHING):
            raise InfrastructureLost(
                f"the tasks of {component!r} saw other attempts of their upstream tasks than won in txid {txid}, or "
                "not all that these sent: Spark ran a task again, as it does after it has lost an executor",
                txid=txid,
            )
    return list(once.values())


def _traffic(reports: Iterable[TaskReport]) -> tuple[dict[str, Tally], dict[str, Tally]]:
    """Return the tallies of blobs sent to each component, and received by its tasks."""
    sent: dict[str, Tally] = {}
    received: dict[str, Tally] = {}
    for report in reports:
        for component, each in report.sent.items():
            sent[component] = sent.get(component, NOTHING).plus(each)
        received[report.component] = received.get(report.component, NOTHING).plus(report.received)
    return sent, received


def _severity(error: AnchorboltError) -> int:
    if isinstance(error, BoltError):
        return 0
    if isinstance(error, WaveFailed):  # the loss explains why other tasks miss data
        return 2 if isinstance(error, InfrastructureLost) else 3
    return 1


def _suspected(error: InfrastructureLost, current: Round) -> WaveFailed:
    """Return `WorkerLost` in place of a loss of an executor that a tuple may have caused, else the error itself."""
    if not (current.suspects_tuples and error.while_running):
        return error
    return WorkerLost(
        f"{error.message}. This wave has lost executors for longer than topology.message.timeout.secs, so a tuple of "
        "it may be the cause: one that needs more memory than a container has, for instance.",
        txid=current.txid,
    )


class Hooks:
    """Calls the hooks for COMMIT and ROLLBACK in the tasks that override them; calls again if a worker was lost."""

    def __init__(self, plan: ExecutionPlan, runner: Runner) -> None:
        self._runner = runner
        self._max_retries = plan.settings.max_batch_retries
        self._patience_s = plan.settings.message_timeout_secs
        self._tasks = {action: _hooked_tasks(plan, name) for action, name in _HOOKS.items()}

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        tasks = self._tasks[checkpoint.action]
        losses, failures = Losses(self._patience_s, self._max_retries), 0
        while tasks:
            try:
                self._runner.send(checkpoint, current, tasks)
                return
            except WaveFailed as failure:
                if losses.bear(failure, f"the hooks of txid {current.txid}"):
                    continue
                failures += 1
                if failures > self._max_retries:
                    raise
                txid = current.txid
                _log.warning("the hooks of txid %d are tried again: %s", txid, failure, extra={"txid": txid})


def _hooked_tasks(plan: ExecutionPlan, hook: str) -> list[TaskKey]:
    return [
        task
        for component in plan.wiring.stateful_bolts
        if getattr(type(plan.graph.bolts[component].bolt), hook) is not getattr(BaseStatefulBolt, hook)
        for task in plan.wiring.tasks[component]
    ]
