"""The rich spouts of a run: their tasks on the driver, the intake of a wave, and the fate of their messages."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch, Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.flow_control import FlowControl, WaveLoad
from anchorbolt.engine.sources.host import Host
from anchorbolt.engine.sources.open_trees import KEPT, open_trees
from anchorbolt.engine.sources.source import Source
from anchorbolt.engine.sources.spout_host import SpoutHost
from anchorbolt.engine.sources.throttle import Throttle, loads_of
from anchorbolt.engine.sources.wave_report import LeftOut, WaveReport, verdicts_of
from anchorbolt.engine.task.messages import Envelope, TaskReport
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.errors import Fenced
from anchorbolt.serialization.msgpack_values import pack_many
from anchorbolt.spouts.intake import Chunk
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.tracking.book import LeftTree, MessageBook, Settled
from anchorbolt.tracking.in_flight import RootedChunk
from anchorbolt.tracking.placement import moves_to
from anchorbolt.tracking.settlements import report_of
from anchorbolt.tracking.sorted_roots import NO_ROOTS, Roots
from anchorbolt.tracking.verdict import Verdict
from anchorbolt.util.messages import counted, shortened

_log = logging.getLogger("anchorbolt.engine")

_CLOSE_S = 5.0
_IDLE_S = 0.2  # without an emit of any spout, before a run ends by itself


NewHost = Callable[[ExecutionPlan, TaskKey, FlowControl, Callable[[], float], Callable[[], None]], Host]
"""Makes the host of a spout's task, as the class `SpoutHost` does. A simulation passes one without threads."""


class TaskIntake(NamedTuple):
    """The data that a task of a rich spout sends in a round."""

    chunks: Sequence[RootedChunk]
    excluded: frozenset[int]  # roots whose tuples are not sent, because they failed in an earlier round
    expired: Roots  # roots of earlier waves that have timed out
    moves: Mapping[int, bytes]  # by acker, see `moves_to`


class RichSpouts(Source):
    """All tasks of rich spouts. The methods are called on one thread, unless they say otherwise."""

    def __init__(self, plan: ExecutionPlan, clock: Callable[[], float], new_host: NewHost = SpoutHost) -> None:
        """Make the tasks.

        Args:
            plan: The plan.
            clock: Returns seconds, for the timeouts of trees and the ages of messages.
            new_host: Makes the host of a task.
        """
        self._plan = plan
        self._clock = clock
        settings = plan.settings
        self._flow = FlowControl.of(settings)
        self._reports: Sequence[TaskReport] = ()  # of the last round
        self._left_out = LeftOut()  # of the current wave
        self._wave_began = 0.0
        self._errors_before = 0  # that the spouts had reported up to the last wave
        self._tell: Callable[[TaskReport], None] | None = None
        self._wake: Callable[[], None] = lambda: None
        # A host calls the last argument when its first tuple waits for a wave, or when its spout fails or has drained.
        self._hosts = {
            task: new_host(plan, task, self._flow, clock, lambda: self._wake()) for task in plan.wiring.rich_spout_tasks
        }
        self.book = MessageBook(
            plan.run_id,
            {plan.wiring.task_id(task): task for tasks in plan.wiring.tasks.values() for task in tasks},
            {component: host.has_stable_ids for (component, _), host in self._hosts.items()},
            timeout_s=settings.tree_timeout_secs,
            excludes=plan.excludes_failed,
            max_retries=settings.max_tuple_retries if plan.keeps_dead_letters else None,
        )
        self._intake: Mapping[int, Sequence[RootedChunk]] = {}  # by the id of the spout's task
        self._moves: Mapping[int, bytes] = {}  # by acker: for the first wave, if the number of ackers has changed

    def have_told(self, tell: Callable[[TaskReport], None]) -> None:
        """Set `tell`, which gets the spouts' metrics on their threads after each wave. Call this before `open`.

        These reports hold only the metrics that the spouts registered and the errors that they reported. `tell` also
        gets the last error that a bolt reported for tuples which the wave leaves out.
        """
        self._tell = tell
        for host in self._hosts.values():
            host.tell = tell

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        """Open all spouts in parallel.

        First open the tasks that repeat acks of earlier runs. Otherwise another task could receive a message that such
        an ack is about to remove.

        Raises:
            SpoutError: A spout could not be opened. A spout's `AnchorboltError` is raised unchanged.
            Fenced: Another run has committed meanwhile, with more ackers.
            StateError: The open trees cannot be read from the store, or are damaged.
        """
        self._checkpoints, self._wake = checkpoints, wake
        self._inherit(checkpoints.record)
        first = [host for (_, index), host in self._hosts.items() if index == 0 and host.acks_again]
        others = [host for host in self._hosts.values() if host not in first]
        for hosts in (first, others):
            for host in hosts:
                host.start()
            for host in hosts:
                host.wait_until_open()

    def _inherit(self, record: DecisionRecord) -> None:
        """Take over the open trees of earlier runs, and the messages that their last decision acked."""
        ackers = record.parallelism.get(ACKER_ID, 0)
        if self._plan.wiring.ackers and ackers > len(self._plan.wiring.tasks[ACKER_ID]):
            raise Fenced(
                f"while this run of {self._plan.topology!r} started, another one has committed with {ackers} ackers, "
                "for which this one has too few tasks. Start it again."
            )
        found = list(open_trees(self._plan, record)) if self._plan.wiring.ackers else []
        trees = [each for each in found if each.spout]
        self._moves = moves_to(
            self._plan.wiring.ackers,
            ((each.acker, each.root, each.tree) for each in trees),
            changed={each.root for each in trees if each.is_changed},
            dropped=[(each.acker, each.root) for each in found if not each.spout],
        )
        left = [LeftTree(each.root, each.spout, each.tree.msg_id) for each in trees]
        absent = self.book.inherit(left, record.acked, self._clock())
        for (component, _), host in self._hosts.items():
            host.redelivery = self.book.redelivery(component)
        for component, number in sorted(absent.items()):
            _log.warning(
                "the spout %r was removed, and has %s in flight. %s",
                component,
                counted(number, "message"),
                KEPT,
                extra={"component": component},
            )

    def check(self) -> None:
        """Raise the error of the first spout that has failed."""
        for host in self._hosts.values():
            if host.failure is not None:
                raise host.failure

    def poll(self) -> bool:
        """Return whether tuples wait for a wave, or open trees must move to other ackers, or a tree has timed out."""
        expired = self.book.has_expired(self._clock())
        return bool(self._moves) or expired or any(host.is_waiting for host in self._hosts.values())

    @property
    def is_empty(self) -> bool:
        """Whether all messages are settled, and no spout has emitted for a while."""
        # In this order: a spout may emit meanwhile.
        return all(host.is_idle(_IDLE_S) for host in self._hosts.values()) and not self.poll()

    def has_run_out(self, held_s: float) -> bool:
        # A spout whose call does not return may still emit, but the loop does not wait for it forever.
        emits_no_more = self.is_drained or held_s >= _CLOSE_S
        return (emits_no_more and self.is_settled) or held_s >= self._plan.settings.message_timeout_secs

    @property
    def in_flight(self) -> int:
        """The number of messages that are neither acked nor failed. May be called on any thread."""
        return sum(host.pending for host in self._hosts.values())

    @property
    def oldest_message_s(self) -> float:
        """The seconds since the oldest message in flight was emitted; 0 without one. May be called on any thread."""
        known = [host.waiting_since for host in self._hosts.values()]  # first: a wave may take these meanwhile
        known.append(self.book.oldest_since)
        oldest = min((since for since in known if since is not None), default=None)
        return 0.0 if oldest is None else self._clock() - oldest

    @property
    def is_settled(self) -> bool:
        """Whether no tuple waits, and no message is in flight. Ask `is_drained` first: a spout may emit meanwhile."""
        return not any(host.is_waiting or not host.is_settled for host in self._hosts.values())

    @property
    def is_drained(self) -> bool:
        """Whether no spout emits any more, after `pause` or `drain`."""
        return all(host.is_drained for host in self._hosts.values())

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        """Freeze what was emitted: it is the intake of the wave."""
        self._left_out = LeftOut()
        self._wave_began = time.perf_counter()
        for host in self._hosts.values():
            host.ask()
        taken = {self._plan.wiring.task_id(task): host.take() for task, host in self._hosts.items()}
        self._intake = self.book.begin(taken, self._clock())
        for host in self._hosts.values():
            host.wake()
        return batch

    def forget_lost(self) -> None:
        """Go on with the wave without the tuples that were lost with a worker. Called before each round in workers."""
        for task, host in self._hosts.items():
            if host.was_lost:
                host.forget(() if host.keeps_intake else self.book.forget(self._plan.wiring.task_id(task)))

    def end_wave(self, txid: int) -> None:
        """Forget the intake. Messages that `settle` has not handled are neither acked nor failed."""
        self._intake = {}

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        """Ack and fail messages."""
        self._moves = {}
        self._measure()
        errors = sum(host.errors_reported for host in self._hosts.values())
        new_errors, self._errors_before = errors - self._errors_before, errors
        settled = self._settle_messages(wave.txid)
        is_throttled = self._flow.is_throttled
        report = replace(
            report,
            **report_of(settled.of_wave, settled.buried, self._clock()),
            errors_reported=report.errors_reported + new_errors + self._left_out.errors_reported,
            tuples_left_out=dict(self._left_out.failed),
            throttled=self._flow.reason if is_throttled else "",
            throttled_by=self._flow.throttled_by if is_throttled else None,
        )
        self._tell_all()
        return report

    def _settle_messages(self, txid: int) -> Settled:
        settled = self.book.settle(self._clock())
        for task_of_spout, settlement in settled.to_tell:
            self._hosts[task_of_spout].settle(settlement.acked, settlement.failed)
        for (component, task), settlement in settled.of_wave.items():
            for message in settlement.failed:
                _log.warning(
                    "txid %d: message %s of spout %r failed: %s",
                    txid,
                    shortened(message.msg_id),
                    component,
                    message,
                    extra={"txid": txid, "component": component, "task": task},
                )
        return settled

    def _tell_all(self) -> None:
        if self._tell is None:
            return
        for task, error in self._left_out.errors.items():
            report = TaskReport(task, "", 0)
            report.error = error
            self._tell(report)
        for host in self._hosts.values():
            host.tell_soon()

    def judge(self, reports: Sequence[TaskReport]) -> bool:
        """Take the reports of a round; return whether it must be repeated without the trees that failed in it."""
        self._reports = reports
        verdicts = verdicts_of(reports)
        if not self._plan.wiring.ackers:
            verdicts = [Verdict(failed=[failure for report in reports for failure in report.failed_trees])]
        return self.book.judge(verdicts)

    def leave_out(self, reports: Sequence[TaskReport]) -> None:
        """Count the failures of a round whose failed tuples the next round leaves out."""
        self._left_out.add(reports)

    def throttle(self) -> Throttle:
        """Return the current throttling of the spouts. May be called on any thread."""
        pending = [(component, host.pending) for (component, _), host in self._hosts.items()]
        return self._flow.throttle(loads_of(pending, self._plan.settings.max_spout_pending))

    def _measure(self) -> None:
        spouts = self._plan.graph.spouts
        bolts = [report for report in self._reports if report.execute_ms]
        if bolts:
            slowest = max(bolts, key=lambda report: report.execute_ms)
            wave_ms = (time.perf_counter() - self._wave_began) * 1000
            # Of all spouts: the bolts' time covers the rows of stream spouts, too.
            taken_in = sum(report.tuples_in for report in self._reports if report.component in spouts)
            self._flow.measure(WaveLoad(taken_in, slowest.task, slowest.execute_ms, wave_ms))

    def idle(self) -> None:
        """Remove the acks from the record once the sources have confirmed all of them."""
        if self._checkpoints.record.acked and not self.book.awaits_sources:
            self._checkpoints.keep_acked(self.book.unconfirmed())

    def finished(self) -> None:
        self._checkpoints.keep_acked(self.book.unconfirmed())
        self.check()  # a spout may have failed to close

    def intake(self, task: TaskKey) -> TaskIntake:
        """Return the data that a task of a rich spout sends in the current round. May be called on any thread."""
        book, plan = self.book, self._plan
        first = task == plan.wiring.rich_spout_tasks[0]
        expired, moves = (book.expired, self._moves) if first else (NO_ROOTS, {})
        return TaskIntake(self._intake.get(plan.wiring.task_id(task), ()), book.excluded, expired, moves)

    def packed_ids(self, chunk: Chunk) -> list[bytes]:
        """Encode the message ids of the tracked tuples, because the ackers may have to store them."""
        if not self._plan.wiring.ackers:
            return []
        return pack_many(chunk.tracked_ids)

    def rows(self, current: Round) -> Iterator[Envelope]:
        for task in self._plan.wiring.rich_spout_tasks:
            yield from self.run_task(task, current)

    def run_task(self, task: TaskKey, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of one task for the current wave. May be called in each of its rounds."""
        intake = self.intake(task)
        rows = (
            SourceRows(chunk.stream, chunk.size, chunk.columns(), roots, self.packed_ids(chunk))
            for chunk, roots in intake.chunks
        )
        yield from run_spout_task(self._plan, *task, current, rows, intake.excluded, intake.expired, intake.moves)

    def pause(self) -> None:
        """Stop the emits of rich spouts until `resume`. May be called on any thread."""
        for host in self._hosts.values():
            host.pause()

    def resume(self) -> None:
        """Let the rich spouts emit again. May be called on any thread."""
        for host in self._hosts.values():
            host.resume()

    def drain(self) -> None:
        """Stop the emits of rich spouts for good. May be called on any thread."""
        for host in self._hosts.values():
            host.drain()

    def close(self, failure: BaseException | None) -> BaseException | None:
        """Make all rich spouts call `deactivate` and `close`; warn of each that has not done so within 5 s."""
        deadline = time.monotonic() + _CLOSE_S
        for host in self._hosts.values():
            host.close(0)
        for host in self._hosts.values():
            if not host.close(max(0.0, deadline - time.monotonic())):
                component, task = host.task
                _log.warning(
                    "spout %r, task %d has not ended: it is in a call that does not return",
                    component,
                    task,
                    extra={"component": component, "task": task},
                )
        return failure
