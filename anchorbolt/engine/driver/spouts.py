"""The spouts that the driver runs itself: rich spouts, and the feeder spouts of tests; and the intake of a wave."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch, Round, TaskKey
from anchorbolt.checkpoint.spout import CheckpointSpout
from anchorbolt.engine.driver.spout_host import SpoutHost
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.spouts.intake import Chunk
from anchorbolt.streams.declaration import DEFAULT_STREAM

_IDLE_S = 0.2  # so long no spout must emit before a run that ends by itself ends


class DriverSpouts:
    """The tasks of all spouts but stream spouts. The methods are called on one thread, if they do not say otherwise."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.changed = threading.Condition()
        self._plan = plan
        self._feeders = {
            id: spec.spout for id, spec in plan.graph.spouts.items() if isinstance(spec.spout, FeederSpout)
        }
        self._hosts = {task: SpoutHost(plan, task, self.notify) for task in plan.rich_spout_tasks}
        self._intake: Mapping[TaskKey, list[Chunk]] = {}
        self._fed: dict[str, list[tuple[object, ...]]] = {}

    def notify(self) -> None:
        """Wake the thread that waits for `changed`. May be called on any thread."""
        with self.changed:
            self.changed.notify_all()

    def open(self, spout: CheckpointSpout) -> None:
        """Open all rich spouts, side by side. Raises `SpoutError`."""
        self._settle_feeders(spout)
        for feeder in self._feeders.values():
            feeder.on_feed = self.notify
        for host in self._hosts.values():
            host.start()
        for host in self._hosts.values():
            host.wait_until_open()

    def check(self) -> None:
        """Raise the error of the first spout that has failed."""
        for host in self._hosts.values():
            if host.failure is not None:
                raise host.failure

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to process in a wave."""
        fed = any(feeder.is_waiting() for feeder in self._feeders.values())
        return fed or any(host.is_waiting for host in self._hosts.values())

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, all messages are settled, and no spout has emitted for a while."""
        hosts = self._hosts.values()
        return not self.is_waiting and all(host.is_settled and host.idle_s >= _IDLE_S for host in hosts)

    @property
    def is_settled(self) -> bool:
        """Whether nothing of the rich spouts waits or is in flight."""
        return not any(host.is_waiting or not host.is_settled for host in self._hosts.values())

    def next_batch(self, record: DecisionRecord) -> Batch:
        """Return the batch of a wave without a query's batch: the last one again, but feeder spouts count on."""
        counts_on = bool(self._feeders) and not self._plan.graph.stream_spouts
        return Batch(record.query_id, record.batch_id + counts_on, record.offsets_digest)

    @contextmanager
    def wave(self, spout: CheckpointSpout) -> Iterator[None]:
        """Freeze what was emitted: it is the intake of the wave that runs in this context.

        When the wave has committed, its tuples are acked. If it has failed for good, nothing is acked or failed.
        """
        self._fed = {component: feeder.take(spout.record.txid + 1) for component, feeder in self._feeders.items()}
        try:
            self._intake = {task: host.take() for task, host in self._hosts.items()}
            yield
            for task, chunks in self._intake.items():
                ids = [msg_id for chunk in chunks for msg_id in chunk.msg_ids if msg_id is not None]
                self._hosts[task].settle(ids, [])
        finally:
            self._settle_feeders(spout)
            self._intake, self._fed = {}, {}

    def _settle_feeders(self, spout: CheckpointSpout) -> None:
        for feeder in self._feeders.values():
            feeder.settle(spout.record.txid)  # of the last wave that was decided

    def intake(self, task: TaskKey) -> list[Chunk]:
        """Return what a task of a rich spout emitted for the current wave. May be called on any thread."""
        return self._intake.get(task, [])

    def run_tasks(self, current: Round) -> Iterator[Envelope]:
        """Yield the blobs of all tasks for the current wave. May be called in each of its rounds."""
        for component, batch in self._fed.items():
            fields = len(self._feeders[component].fields)
            columns = list(map(list, zip(*batch, strict=True))) or [[] for _ in range(fields)]
            fed = [SourceRows(DEFAULT_STREAM, len(batch), columns)]
            yield from run_spout_task(self._plan, component, 0, current, fed)
        for (component, index), chunks in self._intake.items():
            rows = (SourceRows(chunk.stream, chunk.size, chunk.columns()) for chunk in chunks)
            yield from run_spout_task(self._plan, component, index, current, rows)

    def drain(self) -> None:
        """Have the rich spouts emit no more. May be called on any thread."""
        for host in self._hosts.values():
            host.drain()

    def close(self, timeout_s: float) -> list[TaskKey]:
        """Have all rich spouts call `deactivate` and `close`; return the tasks that have not done so in time."""
        for host in self._hosts.values():
            host.close(0)
        return [task for task, host in self._hosts.items() if not host.close(timeout_s)]
