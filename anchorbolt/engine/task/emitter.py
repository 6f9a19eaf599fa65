"""Routes the tuples that a task emits by their groupings, encodes them into blobs, and counts the blobs. No I/O."""

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.submit.plan import Edge, ExecutionPlan
from anchorbolt.engine.task.messages import BarrierMessage, Envelope, encode_barrier, encode_report, encode_tuples
from anchorbolt.engine.task.report import TaskReport
from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.routing import Router, make_router


class Emitter:
    """Kept from wave to wave with the instance of its task.

    Envelopes wait in `out` until the engine takes them.
    """

    def __init__(self, plan: ExecutionPlan, level: int, context: TopologyContext) -> None:
        self._plan = plan
        self._level = level
        self._source: TaskKey = (context.this_component_id, context.this_task_index)
        self._task_id = context.this_task_id
        self._context = context
        self._capacity: dict[str, int] = {}
        self._routers: dict[tuple[str, str], Router] = {}
        self._receivers = {edge.component for edges in plan.edges(self._source[0]).values() for edge in edges}
        self._attempt = ""
        self._sent: defaultdict[TaskKey, int] = defaultdict(int)
        self.out: list[Envelope] = []
        self.bytes_out = 0

    def begin(self, attempt: str) -> None:
        """Start a round under a new attempt."""
        self._attempt = attempt
        self._sent.clear()
        self.out = []
        self.bytes_out = 0

    def flush(self, stream: str, rows: list[Any]) -> int:
        """Send buffered rows of a stream; return how many to buffer next time."""
        largest = 0
        edges = self._plan.edges(self._source[0]).get(stream, ())
        self._check_receivers(stream, edges, rows)
        for edge in edges:
            router = self._router(edge.component, stream)
            shares = router.route_direct(rows) if edge.direct else router.route(rows)
            for index, share in enumerate(shares):
                if share:
                    largest = max(largest, self._send(edge.component, index, stream, share))
        return self._next_capacity(stream, len(rows), largest)

    def forward(self, checkpoint: CheckpointTuple) -> None:
        """Send PREPARE behind everything sent so far, to every task of every receiving bolt."""
        for component in sorted(self._receivers):
            for index in range(self._plan.parallelism(component)):
                message = BarrierMessage(self._source, self._attempt, checkpoint.txid, self._sent[component, index])
                self._append(component, index, encode_barrier(message))

    def report(self, report: TaskReport) -> None:
        """Send the task's report to the driver."""
        payload = encode_report(report)
        level = self._plan.driver_level
        self.out.append(Envelope(self._plan.next_partition(self._level, level, 0), level, 0, payload))

    def take(self) -> list[Envelope]:
        """Return the envelopes that wait to be sent, once."""
        out, self.out = self.out, []
        return out

    def _check_receivers(self, stream: str, edges: Sequence[Edge], rows: list[Any]) -> None:
        """Refuse a tuple that was emitted directly to a task that does not take the stream."""
        direct = [edge for edge in edges if edge.direct]
        if not direct:
            return
        receivers = {task for edge in direct for task in self._plan.task_ids(edge.component)}
        for task, _ in rows:
            if task not in receivers:
                raise TopologyError(
                    f"component {self._source[0]!r} emitted directly to task {task} on stream {stream!r}, which none "
                    f"of its receivers has: {', '.join(edge.component for edge in direct)} have the tasks "
                    f"{sorted(receivers)}. Take the id from context.get_component_tasks.",
                    component=self._source[0],
                )

    def _router(self, component: str, stream: str) -> Router:
        key = (component, stream)
        if key not in self._routers:
            edge = next(edge for edge in self._plan.edges(self._source[0])[stream] if edge.component == component)
            self._routers[key] = make_router(
                copy.deepcopy(edge.grouping),  # a custom one may keep state: each emitting task has its own
                stream=edge.stream_id,
                fields=self._plan.fields(self._source[0], stream),
                target_tasks=self._plan.task_ids(component),
                context=self._context,
            )
        return self._routers[key]

    def _send(self, component: str, index: int, stream: str, rows: Sequence[tuple[Any, ...]]) -> int:
        number = self._sent[component, index]
        try:
            payload = encode_tuples(self._source, self._task_id, self._attempt, number, stream, rows)
        except UnsupportedValue as error:
            raise UnsupportedValue(
                f"component {self._source[0]!r} emitted a value to stream {stream!r} that cannot "
                f"be sent: {error.message}"
            ) from error
        self._sent[component, index] = number + 1
        self._append(component, index, payload)
        return len(payload)

    def _append(self, component: str, index: int, payload: bytes) -> None:
        plan = self._plan
        level, partition = plan.place(component, index)
        self.bytes_out += len(payload)
        self.out.append(Envelope(plan.next_partition(self._level, level, partition), level, partition, payload))

    def _next_capacity(self, stream: str, rows: int, largest: int) -> int:
        """Return a larger buffer size while the blobs stay below the target size, else a smaller one."""
        capacity = self._capacity.get(stream, rows)
        target = self._plan.settings.blob_bytes
        if largest > target:
            capacity = max(1, rows * target // largest)
        elif rows >= capacity:
            capacity = min(capacity * 2, self._plan.settings.buffer_tuples)
        self._capacity[stream] = capacity
        return capacity
