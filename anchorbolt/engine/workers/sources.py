"""The tasks of spouts that run in workers: what the driver sends for them, and how they give their blobs."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.sources.driver_spouts import DriverSpouts
from anchorbolt.engine.task.emitter_task import run_emitter_task
from anchorbolt.engine.task.instances import InstanceRegistry
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.engine.workers.hosted_spouts import HostedSpouts
from anchorbolt.engine.workers.rounds import Slot
from anchorbolt.engine.workers.worker_round import InlineSource, TaskSource
from anchorbolt.serialization import pack, unpack
from anchorbolt.transactional.batches.flights import BatchDriver

_WAITING = 8
_POLL_S = 0.1


class SourceTask(NamedTuple):
    """A task of a spout, as the driver sends it with a round. A list of plain values."""

    component: str
    task_index: int
    emits: bool  # it is the task of an emitter: all else is empty
    excluded: Sequence[int] = ()  # see `run_spout_task`
    expired: bytes | None = None  # roots as bytes
    moves: dict[int, bytes] | None = None
    chunks: Sequence[Sequence[Any]] = ()  # each: stream, tuples, roots as bytes or None, message ids, packed columns
    intake: int = 0  # the number of an intake that the worker holds; then each of `chunks` has only its roots


def emitter_tasks(plan: ExecutionPlan, slots: int) -> dict[Slot, list[SourceTask]]:
    """Return the tasks of emitters by worker."""
    tasks = plan.wiring.tasks.get(plan.wiring.batch_spout, ())
    return _by_slot([SourceTask(*task, emits=True) for task in tasks], slots)


def driver_tasks(
    plan: ExecutionPlan, spouts: DriverSpouts | None, slots: int, hosted: Mapping[TaskKey, int] = MappingProxyType({})
) -> dict[Slot, list[SourceTask]]:
    """Return the tasks of rich spouts with the intake of the wave, and the tasks that replay dead letters.

    `hosted` has the numbers of the intakes that workers hold.
    """
    found: list[SourceTask] = []
    for component, index in plan.wiring.rich_spout_tasks:
        assert spouts is not None
        assert spouts.rich is not None
        intake = spouts.rich.intake((component, index))
        number = hosted.get((component, index), 0) if intake.chunks else 0
        chunks: list[list[Any]] = [
            [roots.tobytes()]
            if number
            else [chunk.stream, chunk.size, roots.tobytes(), spouts.rich.packed_ids(chunk), chunk.payload]
            for chunk, roots in intake.chunks
        ]
        expired, moves = intake.expired.tobytes(), dict(intake.moves)
        found.append(SourceTask(component, index, False, sorted(intake.excluded), expired, moves, chunks, number))
    if spouts is not None and spouts.replays is not None and plan.replays_letters:
        for task, rows_of_task in spouts.replays.tasks():
            chunks = [[rows.stream, rows.size, None, [], pack(list(rows.columns))] for rows in rows_of_task]
            found.append(SourceTask(*task, emits=False, chunks=chunks))
    return _by_slot(found, slots)


def _by_slot(tasks: Sequence[SourceTask], slots: int) -> dict[Slot, list[SourceTask]]:
    found: dict[Slot, list[SourceTask]] = {}
    for position, task in enumerate(tasks):
        found.setdefault(position % slots, []).append(task)
    return found


def opened(
    task: SourceTask,
    plan: ExecutionPlan,
    current: Round,
    registry: InstanceRegistry,
    driver: BatchDriver | None,
    wake: Callable[[], None],
    hosted: HostedSpouts | None,
) -> TaskSource:
    """Begin a task in a worker. `driver` answers emitters; `wake` is called on any thread when a blob waits."""
    if task.emits:
        assert driver is not None
        key = task.component, task.task_index
        return ThreadSource(partial(run_emitter_task, plan, key, current, registry, driver), wake)
    rows: Iterable[SourceRows] = map(_rows_of, task.chunks)
    if task.intake:
        assert hosted is not None
        rows = hosted.rows(
            (task.component, task.task_index), task.intake, [roots for [roots] in task.chunks], current.txid
        )
    return InlineSource(_sent(plan, (task.component, task.task_index), current, rows, task))


def _sent(
    plan: ExecutionPlan, task: TaskKey, current: Round, rows: Iterable[SourceRows], sent: SourceTask
) -> Iterator[Envelope]:
    expired = None
    if sent.expired is not None:
        import numpy as np  # only for rich spouts

        expired = np.frombuffer(sent.expired, np.uint64)
    return run_spout_task(plan, *task, current, rows, frozenset(sent.excluded), expired, sent.moves)


def _rows_of(chunk: Sequence[Any]) -> SourceRows:
    stream, size, roots, msg_ids, payload = chunk
    if roots is None:
        return SourceRows(stream, size, unpack(payload))
    import numpy as np

    return SourceRows(stream, size, unpack(payload), np.frombuffer(roots, np.uint64), msg_ids)


class ThreadSource:
    """A task whose spout waits for its source: it runs on a thread of its own, some blobs ahead."""

    def __init__(self, begin: Callable[[], Iterator[Envelope]], wake: Callable[[], None]) -> None:
        self._begin = begin
        self._wake = wake
        self._queue: queue.Queue[Envelope | BaseException | None] = queue.Queue(_WAITING)
        self._is_closed = threading.Event()
        self.is_ended = False
        threading.Thread(target=self._run, name="anchorbolt-emitter-task", daemon=True).start()

    def take(self) -> Envelope | None:
        """Return the next blob. Raises the error that has ended the task, which is a fault of Anchorbolt."""
        try:
            found = self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        self.is_ended = found is None
        return found

    def close(self) -> None:
        self._is_closed.set()

    def _run(self) -> None:
        envelopes = self._begin()
        last: BaseException | None = None
        try:
            for envelope in envelopes:
                if not self._put(envelope):
                    envelopes.close()  # type: ignore[attr-defined]
                    return
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: Envelope | BaseException | None) -> bool:
        """Wait until there is space; return False if nobody takes it any more."""
        while not self._is_closed.is_set():
            with suppress(queue.Full):
                self._queue.put(item, timeout=_POLL_S)
                self._wake()
                return True
        return False
