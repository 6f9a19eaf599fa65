"""The driver's side of a wave, whatever engine runs its tasks: recovery, rounds, decision, commit.

Follows section 3 of the design step by step. What has to be decided is decided by `checkpoint`; this module acts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol, TypeVar

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.outbox import OUTBOX
from anchorbolt.checkpoint.recovery import RecoveryPlan, check_parallelism, check_query, plan_recovery
from anchorbolt.checkpoint.spout import CHECKPOINT_SPOUT_ID, CheckpointSpout
from anchorbolt.checkpoint.state import Action
from anchorbolt.engine.hooks import hooked_tasks
from anchorbolt.engine.patience import Patience
from anchorbolt.engine.reports import RecoveryReport, WaveReport, check_round, summarise, winners_of
from anchorbolt.engine.submission import Submission
from anchorbolt.engine.wave import TaskKey, TaskReport, Wave
from anchorbolt.errors import (
    AnchorboltError,
    CodecMismatch,
    ConfigError,
    Fenced,
    QueryChanged,
    StateCorrupted,
    StateRegressed,
    WaveFailed,
)
from anchorbolt.files import Folder
from anchorbolt.state_backends.base import Fence, NamespaceHead, StateStorage

__all__ = ["Batch", "Runner", "WaveCoordinator"]

_log = logging.getLogger("anchorbolt.engine")

T = TypeVar("T")

_FINAL = (Fenced, StateRegressed, StateCorrupted, CodecMismatch, ConfigError, QueryChanged)
"""Errors that trying the batch again cannot mend."""

_COPY = "anchorbolt/decision"
_COMMIT_THREADS = 8
_LOOKS = 3
_BETWEEN_LOOKS_S = 0.3


@dataclass(frozen=True)
class Batch:
    """What a wave processes, as its source names it.

    Attributes:
        query_id: Id of the streaming query.
        batch_id: Its batch, counted from 0.
        offsets_digest: Digest of the batch's offsets; empty where the source has none.
    """

    query_id: str
    batch_id: int
    offsets_digest: str = ""


class Runner(Protocol):
    """What an engine does for the coordinator."""

    def run_round(self, wave: Wave) -> Sequence[TaskReport]:
        """Run the current batch's data and PREPARE through all tasks; return their reports.

        Called again for another round of the same batch. Raises any exception where the round as a whole failed.
        """

    def run_hooks(self, action: Action, wave: Wave, tasks: Sequence[TaskKey]) -> None:
        """Call `pre_commit` or `pre_rollback` on these tasks. Raises `BoltError`."""

    def read_files(self, locations: Sequence[str]) -> Any:
        """Return a Spark DataFrame of Parquet files."""


class WaveCoordinator:
    """Drives one topology's waves. One thread at a time."""

    def __init__(self, submission: Submission, runner: Runner, folder: Folder) -> None:
        """Make the coordinator of a run.

        Args:
            submission: What was submitted.
            runner: The engine.
            folder: The streaming checkpoint location.
        """
        self._plan = plan = submission.plan
        self._runner = runner
        self._folder = folder
        self._max_retries = submission.max_batch_retries
        self._patience = Patience(submission.patience_ms)
        self._storages: dict[str, StateStorage] = {}
        self._spout = CheckpointSpout(
            plan.provider.open(plan.namespace(CHECKPOINT_SPOUT_ID, 0)), _FolderCopy(folder)
        )
        self._sinks = submission.sinks
        self._hooked = {action: hooked_tasks(plan, action) for action in (Action.COMMIT, Action.ROLLBACK)}
        self._threads = ThreadPoolExecutor(_COMMIT_THREADS, thread_name_prefix="anchorbolt-commit")
        self._fence = Fence(0, 0)
        self._record = DecisionRecord()
        self._previous: dict[TaskKey, str] = {}

    @property
    def record(self) -> DecisionRecord:
        """The decision that stands."""
        return self._record

    def recover(self) -> RecoveryReport:
        """Claim the topology, fence every older driver off, and mend what a dead one left behind.

        Raises:
            StateRegressed: The store went back in time, or lost data; nothing was written.
            TopologyError: A stateful bolt's parallelism was changed.
        """
        started = perf_counter()
        self._refuse_early()
        self._fence = self._patience.until_available(self._spout.claim)
        stored, plan, heads = self._survey(lambda storage: storage.raise_fence(self._fence))
        self._record = plan.record
        found = {name: Committed(head.committed, head.winner) for name, head in heads.items()}
        wave = Wave(plan.state.txid, self._fence, found)
        if plan.action is Action.COMMIT:
            self._commit(plan.roll_forward, wave)
        dropped = [name for name in plan.leftovers if name not in plan.roll_forward]
        if dropped:
            self._roll_back(dropped, wave)
        self._clean_outbox()
        if stored is None:
            self._decide(replace(self._record, parallelism=self._parallelism()))
        action = {Action.COMMIT: "rolled forward", Action.ROLLBACK: "rolled back"}.get(
            plan.action, "started" if stored is None else "resumed"
        )
        return RecoveryReport(
            self._fence.generation, self._record.txid, action, (perf_counter() - started) * 1000
        )

    def check_query(self, query_id: str, *, accept_new: bool) -> None:
        """Bind the run to a streaming query; an empty id means one that is yet to be made.

        Raises:
            QueryChanged: The state was computed from another one, and `accept_new` is not set.
        """
        self._record = check_query(self._record, query_id, accept_new=accept_new)

    def is_committed(self, batch: Batch) -> bool:
        """Say whether a batch is part of the state already, and so must be skipped.

        Raises:
            QueryChanged: It is the batch committed last by number, but not by its offsets.
        """
        record = self._record
        if batch.batch_id > record.batch_id or record.query_id != batch.query_id:
            return False
        known, given = record.offsets_digest, batch.offsets_digest
        if batch.batch_id == record.batch_id and known and given and known != given:
            raise QueryChanged(
                f"batch {batch.batch_id} of streaming query {batch.query_id} is committed, but its offsets are not "
                "those that it had then: the checkpoint location was restored or edited. Restore what it was, "
                "or delete it and set topology.checkpoint.accept.new.query to true for one run."
            )
        return True

    def run_wave(self, batch: Batch) -> WaveReport:
        """Run one batch as one transaction, in as many rounds as it takes and is allowed.

        Raises:
            AnchorboltError: Why the batch could not be committed; the state is as before the wave, unless the
                decision had been made: then the next `recover` finishes it.
        """
        state = self._record.state.begin()
        rounds = 0
        while True:
            rounds += 1
            wave = Wave(state.txid, self._next_fence(), self._record.namespaces, self._previous)
            started = perf_counter()
            try:
                reports = self._run_round(wave)
                break
            except AnchorboltError as error:
                if isinstance(error, Fenced):
                    raise
                self._abandon_round(wave)
                if isinstance(error, _FINAL) or rounds > self._max_retries:
                    raise
                _log.warning("txid %d failed in round %d and is tried again: %s", state.txid, rounds, error)
        round_ms = (perf_counter() - started) * 1000
        started = perf_counter()
        winners = winners_of(self._plan, reports)
        changed = {name: Committed(state.txid, winner.attempt) for name, winner in winners.items()}
        self._decide(
            DecisionRecord(
                state=state.after(Action.PREPARE),
                query_id=batch.query_id,
                batch_id=batch.batch_id,
                offsets_digest=batch.offsets_digest,
                winners=winners,
                namespaces={**self._record.namespaces, **changed},
                outbox=tuple(report.sink for report in reports if report.sink is not None),
                parallelism={**self._record.parallelism, **self._parallelism()},
            )
        )
        decide_ms = (perf_counter() - started) * 1000
        started = perf_counter()
        self._previous = {
            report.task: report.attempt for report in reports if report.component in self._plan.stateful_bolts
        }
        self._commit(winners, replace(wave, previous=self._previous))
        return summarise(
            reports,
            txid=state.txid,
            batch_id=batch.batch_id,
            rounds=rounds,
            round_ms=round_ms,
            decide_ms=decide_ms,
            commit_ms=(perf_counter() - started) * 1000,
        )

    def close(self) -> None:
        """Close all namespaces."""
        self._threads.shutdown(wait=True)
        for storage in self._storages.values():
            storage.close()
        self._spout.close()

    def _refuse_early(self) -> None:
        """Look before anything is written, the fence included: a store that is in order passes at once.

        An older driver that still runs can make one look inconsistent, so it takes several to refuse.
        """
        for look in range(_LOOKS):
            try:
                self._survey(lambda storage: storage.head())
                return
            except (StateRegressed, CodecMismatch):
                if look == _LOOKS - 1:
                    raise
                time.sleep(_BETWEEN_LOOKS_S)

    def _survey(
        self, read: Callable[[StateStorage], NamespaceHead]
    ) -> tuple[DecisionRecord | None, RecoveryPlan, dict[str, NamespaceHead]]:
        stored, copied = self._patience.until_available(self._spout.load)
        check_parallelism(stored or DecisionRecord(), self._parallelism())
        recorded = {**(copied.namespaces if copied else {}), **(stored.namespaces if stored else {})}
        for namespace in {*self._plan.namespaces(), *recorded}:
            if namespace not in self._storages:
                self._storages[namespace] = self._plan.provider.open(namespace)
        heads = dict(self._on_each(self._storages, lambda _, storage: read(storage)))
        plan = plan_recovery(stored, copied, heads)
        self._check_codecs(heads)
        return stored, plan, heads

    def _run_round(self, wave: Wave) -> Sequence[TaskReport]:
        try:
            reports = self._runner.run_round(wave)
        except AnchorboltError:
            raise
        except Exception as error:
            raise WaveFailed(
                f"the engine could not finish a round of txid {wave.txid}: {error}", txid=wave.txid
            ) from error
        check_round(self._plan, reports, wave.txid)
        return reports

    def _abandon_round(self, wave: Wave) -> None:
        """Roll a failed round back: its fence is raised everywhere, so that its tasks can do no more harm."""
        self._roll_back(tuple(self._storages), wave)
        self._previous = {}
        self._folder.remove_tree(f"{OUTBOX}/{wave.txid}")

    def _roll_back(self, namespaces: Sequence[str], wave: Wave) -> None:
        self._run_hooks(Action.ROLLBACK, wave)
        fence = self._next_fence()
        chosen = {name: self._storages[name] for name in namespaces}
        self._on_each(chosen, lambda _, storage: storage.rollback(fence))

    def _run_hooks(self, action: Action, wave: Wave) -> None:
        """Call the bolts' hooks, again where a worker was lost meanwhile; what a hook itself raises ends the run."""
        tasks = self._hooked[action]
        for round_number in range(self._max_retries + 1 if tasks else 0):
            try:
                self._runner.run_hooks(action, wave, tasks)
                return
            except AnchorboltError:
                raise
            except Exception as error:
                failure = WaveFailed(
                    f"the hooks of txid {wave.txid} could not be run: {error}", txid=wave.txid
                )
                if round_number == self._max_retries:
                    raise failure from error
                _log.warning("%s; they are tried again", failure)

    def _decide(self, record: DecisionRecord) -> None:
        self._patience.until_available(lambda: self._spout.write(self._fence, record))
        self._spout.write_copy(record)
        self._record = record

    def _commit(self, winners: Mapping[str, Winner], wave: Wave) -> None:
        """Commit what was decided; every step can be repeated, and is, after a crash."""
        record = self._record
        self._run_hooks(Action.COMMIT, wave)
        fence = self._next_fence()
        chosen = {name: self._storages[name] for name in winners}
        self._on_each(chosen, lambda name, storage: storage.commit(fence, record.txid, winners[name].attempt))
        for component, files in _by_component(record.outbox).items():
            sink = self._sinks.get(component)
            if sink is None:
                raise ConfigError(
                    f"the decided txid {record.txid} has rows for sink {component!r}, which the topology "
                    "no longer has. Start it once more with that sink, so that they are published."
                )
            sink.publish(record.txid, files, self._runner.read_files)
        committed = record.committed()
        self._patience.until_available(lambda: self._spout.write(fence, committed))
        self._record = committed
        if record.outbox:
            self._folder.remove_tree(f"{OUTBOX}/{record.txid}")

    def _clean_outbox(self) -> None:
        for name in list(self._folder.names(OUTBOX)):
            self._folder.remove_tree(f"{OUTBOX}/{name}")

    def _check_codecs(self, heads: Mapping[str, NamespaceHead]) -> None:
        for namespace in self._plan.namespaces():
            header, expected = heads[namespace].codec, self._plan.codec_header(namespace)
            if header and header != expected:
                raise CodecMismatch(
                    f"state {namespace!r} was written as {header!r}, but the configuration says {expected!r}. Set "
                    "keySerializerClass and valueSerializerClass back to what wrote it.",
                    namespace=namespace,
                )

    def _parallelism(self) -> dict[str, int]:
        return {component: self._plan.parallelism(component) for component in self._plan.stateful_bolts}

    def _next_fence(self) -> Fence:
        self._fence = Fence(self._fence.generation, self._fence.seq + 1)
        return self._fence

    def _on_each(
        self, storages: Mapping[str, StateStorage], act: Callable[[str, StateStorage], T]
    ) -> list[tuple[str, T]]:
        """Act on several namespaces side by side; each storage is used by one thread."""

        def patiently(name: str, storage: StateStorage) -> tuple[str, T]:
            return name, self._patience.until_available(lambda: act(name, storage))

        if len(storages) <= 1:
            return [patiently(name, storage) for name, storage in storages.items()]
        return list(self._threads.map(patiently, storages, storages.values()))


class _FolderCopy:
    """The decision record's copy, as a file at the checkpoint location."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def read(self) -> bytes | None:
        return self._folder.read(_COPY)

    def write(self, data: bytes) -> None:
        self._folder.replace(_COPY, data)


def _by_component(files: Sequence[SinkFile]) -> dict[str, list[SinkFile]]:
    grouped: dict[str, list[SinkFile]] = {}
    for file in files:
        grouped.setdefault(file.component, []).append(file)
    return grouped
