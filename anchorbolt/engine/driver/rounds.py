"""The rounds of a wave on any engine: runs them, checks and adds up their reports, and runs COMMIT and ROLLBACK."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.ports import PreparedRound, Round, TaskKey
from anchorbolt.checkpoint.spout import CommittedWave
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.driver.hooks import HookRunner, Hooks
from anchorbolt.engine.driver.state_commits import StateCommitRunner
from anchorbolt.engine.spouts.driver_spouts import DriverSpouts
from anchorbolt.engine.spouts.failed_trees import FailedTree
from anchorbolt.engine.spouts.settled_messages import TaskMessages
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.task.tally import NOTHING, Tally
from anchorbolt.errors import AnchorboltError, BoltError, InfrastructureLost, WaveFailed, WorkerLost
from anchorbolt.metrics.distribution import Distribution

if TYPE_CHECKING:
    from anchorbolt.engine.driver.isolation import Isolation

_log = logging.getLogger("anchorbolt.engine")

_ONLY_REPEAT = PreparedRound({}, {}, (), (), repeat=True)


class Runner(HookRunner, StateCommitRunner, Protocol):
    """Runs the tasks of a round; each engine implements it."""

    spouts: DriverSpouts | None  # those that the driver runs itself; None if there are none

    def run_round(self, current: Round) -> Sequence[TaskReport]:
        """Run the current batch's data and PREPARE through all tasks; return their reports.

        Called again for another round of the same batch. Raises any exception if the round as a whole failed.
        """

    def read_files(self, locations: Sequence[str]) -> Any:
        """Return a Spark DataFrame of Parquet files."""

    def close_instances(self) -> None:
        """Close the instances of bolts that the tasks keep."""


class Rounds:
    """`checkpoint.ports.Tasks` on any engine."""

    def __init__(self, plan: ExecutionPlan, runner: Runner) -> None:
        self._plan = plan
        self._runner = runner
        self._hooks = Hooks(plan, runner)
        self._spouts = None if runner.spouts is None else runner.spouts.rich
        self._isolation: Isolation | None = None
        if plan.keeps_dead_letters:
            from anchorbolt.engine.driver.isolation import Isolation  # NumPy: only where it is needed

            self._isolation = Isolation(plan.settings.most_dead_letters, self._spouts)

    def prepare(self, current: Round) -> PreparedRound:
        replayed = ""
        if self._runner.spouts is not None:
            current = replace(current, ticks=self._runner.spouts.ticks)
            replayed = self._runner.spouts.replayed
        if self._isolation is None:
            reports = self._run(current)
        else:
            try:
                reports = self._run(self._isolation.begin(current, replays=bool(replayed)))
            except AnchorboltError as error:
                if self._isolation.failed(error):
                    return _ONLY_REPEAT
                raise
            if self._isolation.is_probe(reports):
                return _ONLY_REPEAT
        stateful, spouts = self._plan.stateful, self._spouts
        repeat = spouts is not None and spouts.judge(reports)
        repeat = (self._isolation is not None and self._isolation.judge(reports)) or repeat
        if repeat and spouts is not None:
            spouts.leave_out(reports)
        letters = [] if repeat else self._dead_letters(reports)
        return PreparedRound(
            winners={
                self._plan.namespace(report.task): Winner(report.attempt, report.outcome.base, report.outcome.seal)
                for report in reports
                if report.outcome.seal is not None
            },
            task_winners={report.task: report.attempt for report in reports if report.component in stateful},
            files=tuple(report.outcome.file for report in reports if report.outcome.file is not None),
            reports=reports,
            acked=() if spouts is None or repeat else spouts.acked(),
            dead_letters=tuple(letters),
            replayed=replayed,
            repeat=repeat,
        )

    def _run(self, current: Round) -> Sequence[TaskReport]:
        try:
            reports = self._runner.run_round(current)
        except InfrastructureLost as error:
            raise suspected(error, current) from error.__cause__
        except AnchorboltError:
            raise
        except Exception as error:
            raise WaveFailed(
                f"the engine could not finish a round of txid {current.txid}: {error}", txid=current.txid
            ) from error
        check_round(self._plan, reports, current.txid)
        # A report may arrive twice. What an acker says of its trees must not count twice.
        return list({report.task: report for report in reports}.values())

    def _dead_letters(self, reports: Sequence[TaskReport]) -> list[DeadLetter]:
        letters = [] if self._spouts is None else self._spouts.dead_letters()
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

    def send(self, checkpoint: CheckpointTuple, current: Round) -> None:
        self._hooks.send(checkpoint, current)


PHASES = ("source", "compute", "prepare", "decide", "commit")
"""The phases of a wave, in their order; a `WaveReport` has the time of each as `…_ms`."""


@dataclass(frozen=True)
class WaveReport:
    """One committed wave."""

    txid: int
    batch_id: int  # the streaming query's batch; the wave's number on an engine without a query
    rounds: int = 1  # 1 if nothing failed
    losses: int = 0  # of the rounds before the last: those in which Spark or the network lost something
    round_failures: tuple[str, ...] = ()  # why rounds failed, in one line each; the first ten
    tuples_in: Mapping[str, int] = field(default_factory=dict)  # by component: executed; of a spout: rows read
    tuples_out: Mapping[str, int] = field(default_factory=dict)  # by component: emitted
    bytes_shuffled: int = 0  # bytes of the blobs between tasks
    keys_read: int = 0  # keys read from the store
    keys_staged: int = 0  # updates staged
    # By task: tuples that failed in rounds which were run again without them; of rich spouts.
    tuples_left_out: Mapping[TaskKey, int] = field(default_factory=dict)
    errors_reported: int = 0  # calls of `report_error`, and each `ReportedFailedException`
    messages_acked: Mapping[str, int] = field(default_factory=dict)  # by rich spout: messages whose trees are complete
    messages_failed: Mapping[str, int] = field(default_factory=dict)  # by rich spout
    # Both by task; without messages that an earlier driver has emitted.
    messages_by_task: Mapping[TaskKey, TaskMessages] = field(default_factory=dict)
    messages_timed_out: Mapping[tuple[str, TaskKey], int] = field(default_factory=dict)
    """Of the failed messages: those that timed out, by their spout and the task that held a tuple of them last."""
    # By rich spout: from the emit of its acked messages to their ack; Storm's complete latency.
    complete_ms: Mapping[str, Distribution] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # by spout: tuples left out; not counted as acked
    failures: tuple[FailedTree, ...] = ()  # the first 100 of the failed messages, with their reasons
    throttled: str = ""  # why the rich spouts were throttled when the wave ended; empty if they were not
    throttled_by: TaskKey | None = None  # the bolt's task for which they were, if a wave had shown how fast it is
    # By stream spout, without those whose sources do not tell; by the empty string if some spout has several sources.
    source_offsets_behind: Mapping[str, int] = field(default_factory=dict)  # that the source had, and no wave had read
    source_files_waiting: Mapping[str, int] = field(default_factory=dict)
    source_ms: float = 0.0  # the longest time that a spout's task waited for its source
    compute_ms: float = 0.0  # the rest of the round
    prepare_ms: float = 0.0  # the longest time in which a task staged its state or wrote its outbox file
    decide_ms: float = 0.0  # writing the decision record and its copy
    commit_ms: float = 0.0  # committing all namespaces, publishing sinks, and marking the wave COMMITTED

    @property
    def total_ms(self) -> float:
        """All phases together, in ms."""
        return self.source_ms + self.compute_ms + self.prepare_ms + self.decide_ms + self.commit_ms

    @property
    def offsets_behind(self) -> int | None:
        """By how many offsets the query was behind all its sources; None if no source tells."""
        return sum(self.source_offsets_behind.values()) if self.source_offsets_behind else None

    @property
    def files_waiting(self) -> int | None:
        """How many files waited for the query; None if no source tells."""
        return sum(self.source_files_waiting.values()) if self.source_files_waiting else None

    @property
    def checkpoint_ms(self) -> float:
        """Prepare, decide and commit, in ms."""
        return self.prepare_ms + self.decide_ms + self.commit_ms


def check_round(plan: ExecutionPlan, reports: Sequence[TaskReport], txid: int) -> None:
    """Check that every task prepared, and that all blobs that the winning attempts sent were received, and no others.

    Raises:
        AnchorboltError: A task's failure. Of several, a `BoltError` comes before any other, and a `WaveFailed` last.
        WaveFailed: A task is missing.
        InfrastructureLost: A task reported two attempts, or a task received something else than was sent to it.
    """
    failures = [report.failure for report in reports if report.failure is not None]
    if failures:
        raise min(failures, key=_severity)
    attempts: dict[TaskKey, str] = {}
    for report in reports:
        if attempts.setdefault(report.task, report.attempt) != report.attempt:
            raise InfrastructureLost(f"task {report.task} reported twice in txid {txid}: Spark ran it again", txid=txid)
    missing = [task for level in plan.levels for task in level if task not in attempts]
    if missing:
        raise WaveFailed(f"no report from {missing} in txid {txid}", txid=txid)
    sent, received = _traffic({report.task: report for report in reports}.values())
    for component in {**sent, **received}:
        if sent.get(component, NOTHING) != received.get(component, NOTHING):
            raise InfrastructureLost(
                f"the tasks of {component!r} saw other attempts of their upstream tasks than won in txid {txid}, or "
                "not all that these sent: Spark ran a task again, as it does after it has lost an executor",
                txid=txid,
            )


def _traffic(reports: Iterable[TaskReport]) -> tuple[dict[str, Tally], dict[str, Tally]]:
    """Return what was sent to each component, and what its tasks received."""
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
    if isinstance(error, WaveFailed):  # what was lost explains what the other tasks miss
        return 2 if isinstance(error, InfrastructureLost) else 3
    return 1


def suspected(error: InfrastructureLost, current: Round) -> WaveFailed:
    """Return a loss as it counts in this round: as a worker's death if a tuple may have ended the executor."""
    if not (current.suspects_tuples and error.while_running):
        return error
    return WorkerLost(
        f"{error.message}. This wave has lost executors for longer than topology.message.timeout.secs, so a tuple of "
        "it may be the cause: one that needs more memory than a container has, for instance.",
        txid=current.txid,
    )


def summarise(wave: CommittedWave) -> WaveReport:
    """Add up a committed wave."""
    reports: Sequence[TaskReport] = wave.reports
    tuples_in, tuples_out = Counter[str](), Counter[str]()
    for report in reports:
        tuples_in[report.component] += report.tuples_in
        tuples_out[report.component] += report.tuples_out
    source_ms = max((report.source_ms for report in reports), default=0.0)
    prepare_ms = max((report.prepare_ms for report in reports), default=0.0)
    return WaveReport(
        txid=wave.txid,
        batch_id=wave.batch_id,
        rounds=wave.rounds,
        losses=wave.losses,
        round_failures=tuple(each.reason for each in wave.round_failures),
        tuples_in=tuples_in,
        tuples_out=tuples_out,
        bytes_shuffled=sum(report.bytes_out for report in reports),
        keys_read=sum(report.outcome.counters.keys_read for report in reports),
        keys_staged=sum(report.outcome.counters.keys_staged for report in reports),
        errors_reported=sum(report.errors_reported for report in reports),
        dead_letters=Counter(letter.spout for letter in wave.dead_letters),
        source_ms=source_ms,
        compute_ms=max(0.0, wave.round_ms - source_ms - prepare_ms),
        prepare_ms=prepare_ms,
        decide_ms=wave.decide_ms,
        commit_ms=wave.commit_ms,
    )
