"""The report of a committed wave: the time of its phases, its figures, and why rounds before it failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from anchorbolt.checkpoint.coordinator import CommittedWave
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.engine.task.messages import ReportedError, TaskReport
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.tracking.settlements import FailedTree, TaskMessages
from anchorbolt.tracking.verdict import Verdict

PHASES = ("source", "compute", "prepare", "decide", "commit")
"""The phases of a wave, in their order; a `WaveReport` has the time of each as `…_ms`."""


@dataclass(frozen=True)
class WaveReport:
    """One committed wave."""

    txid: int
    batch_id: int  # the streaming query's batch; the wave's number on an engine without a query
    rounds: int = 1  # 1 if nothing failed
    losses: int = 0  # of the rounds before the last, the number in which Spark or the network lost something
    round_failures: tuple[str, ...] = ()  # the reasons of the first ten failed rounds, one line each
    tuples_in: Mapping[str, int] = field(default_factory=dict)  # by component: executed; of a spout: rows read
    tuples_out: Mapping[str, int] = field(default_factory=dict)  # by component: emitted
    bytes_shuffled: int = 0  # bytes of the blobs between tasks
    keys_read: int = 0  # keys read from the store
    keys_staged: int = 0  # updates staged
    # By task: tuples of rich spouts that failed in a round which was repeated without them.
    tuples_left_out: Mapping[TaskKey, int] = field(default_factory=dict)
    errors_reported: int = 0  # calls of `report_error`, and each `ReportedFailedException`
    messages_acked: Mapping[str, int] = field(default_factory=dict)  # by rich spout: messages whose trees are complete
    messages_failed: Mapping[str, int] = field(default_factory=dict)  # by rich spout
    # By task; without messages that an earlier driver has emitted.
    messages_by_task: Mapping[TaskKey, TaskMessages] = field(default_factory=dict)
    messages_timed_out: Mapping[tuple[str, TaskKey], int] = field(default_factory=dict)
    """Failed messages that timed out, by their spout and the last task that held one of their tuples."""
    # By rich spout: from the emit of its acked messages to their ack; Storm's complete latency.
    complete_ms: Mapping[str, Distribution] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)  # by spout: tuples left out; not counted as acked
    failures: tuple[FailedTree, ...] = ()  # the first 100 of the failed messages, with their reasons
    throttled: str = ""  # why the rich spouts were throttled when the wave ended; empty if they were not
    throttled_by: TaskKey | None = None  # the bolt's task that was too slow, if a wave had measured it
    # By stream spout, if its source reports it; under the empty string if some spout has several sources.
    source_offsets_behind: Mapping[str, int] = field(default_factory=dict)  # not yet read by a wave
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
        """The number of offsets that the query was behind all its sources; None if no source reports it."""
        return sum(self.source_offsets_behind.values()) if self.source_offsets_behind else None

    @property
    def files_waiting(self) -> int | None:
        """The number of files that waited for the query; None if no source reports it."""
        return sum(self.source_files_waiting.values()) if self.source_files_waiting else None

    @property
    def checkpoint_ms(self) -> float:
        """Prepare, decide and commit, in ms."""
        return self.prepare_ms + self.decide_ms + self.commit_ms


def summarise(wave: CommittedWave) -> WaveReport:
    """Add up a committed wave. Its sources add their parts, see `Source.settle`."""
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


class LeftOut:
    """Adds up the rounds of one wave that were repeated without the tuples that failed in them."""

    def __init__(self) -> None:
        self.errors_reported = 0  # of these tuples
        self.errors: dict[TaskKey, ReportedError] = {}  # the last of each task
        self.failed = Counter[TaskKey]()  # tuples, by the task that failed them

    def add(self, reports: Sequence[TaskReport]) -> None:
        """Add the reports of a round.

        Tuples of trees of earlier waves are not left out: the next round counts them.
        """
        self.errors_reported += sum(report.failures_reported for report in reports)
        self.errors |= {each.task: each.error for each in reports if each.error and each.failures_reported}
        failed = (each for verdict in verdicts_of(reports) for each in verdict.failed)
        earlier = Counter(each[1:3] for each in failed if each.msg_id is not None)
        self.failed += Counter({report.task: report.tuples_failed for report in reports}) - earlier


def verdicts_of(reports: Sequence[TaskReport]) -> list[Verdict]:
    """Return the verdicts of the ackers in a round."""
    return [report.outcome.verdict for report in reports if report.outcome.verdict is not None]
