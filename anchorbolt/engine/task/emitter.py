"""Routes the tuples that a task emits by their groupings, encodes them into blobs, and counts the blobs. No I/O."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.checkpoint.state_machine import CheckpointTuple
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.plan.wiring import Edge
from anchorbolt.engine.task import messages
from anchorbolt.engine.task.messages import NOTHING, Tally, tally
from anchorbolt.engine.task.value_checks import RowChecks, typed
from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.serialization.msgpack_values import refused_value
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import ALL, Column, as_arrow_if_plain, as_list, size_of, taken
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.streams.routing import ROUTERS, Router
from anchorbolt.streams.tuple import Item

if TYPE_CHECKING:
    from anchorbolt.streams.columns import Positions
    from anchorbolt.tracking.task_tracker import TaskTracker


class Emitter:
    """Sends the tuples of a task. Kept from wave to wave with the task's instance.

    Envelopes wait in `out` until the engine takes them.
    """

    def __init__(self, plan: ExecutionPlan, task: TaskKey, tracker: TaskTracker | None = None) -> None:
        """Create it; without a `tracker`, tuple trees are not tracked."""
        self._tracker = tracker
        self.excluded: Set[int] = frozenset()  # roots whose tuples are routed, but not sent
        self.moves: Mapping[int, bytes] = {}  # by acker: the open trees to move, see `moves_to`
        self.context = plan.wiring.context(task)
        self._plan = plan
        self._home = plan.wiring.homes.get(task, (0, 0))  # of a spout's task, any partition of stage 0
        self._source = task
        self._edges = plan.wiring.edges[task[0]]
        self.unread = frozenset(plan.wiring.streams.get(task[0], ())).difference(self._edges)  # streams no bolt takes
        self._capacity: dict[str, int] = {}
        self._routers: dict[tuple[str, str], Router] = {}
        self._checks: dict[str, RowChecks] = {}  # by stream, for rounds that check
        self.begin("")

    def begin(self, attempt: str) -> None:
        """Start a round under a new attempt."""
        self._attempt = attempt
        self._sent: defaultdict[TaskKey, int] = defaultdict(int)
        self.out: list[messages.Envelope] = []
        self.bytes_out = 0
        self.encode_ms = 0.0
        if self._tracker is not None:
            self._tracker.begin(attempt)

    def flush(self, stream: str, buffer: Buffer) -> int:
        """Send the columns of a buffer; return how many tuples to buffer next time."""
        return self.send(stream, buffer.size, buffer.columns, buffer.tasks, buffer.items or None)

    def send(
        self,
        stream: str,
        size: int,
        columns: Sequence[Column],
        tasks: Sequence[int] = (),
        items: Sequence[Item] | None = None,
    ) -> int:
        """Send tuples of a stream; return how many to buffer next time.

        Args:
            stream: The stream.
            size: Number of tuples.
            columns: A column for each field.
            tasks: The task id of each tuple, if the stream is direct.
            items: The roots of each tuple; None if none is tracked.
        """
        started, largest = perf_counter(), 0
        edges = self._edges.get(stream, ())
        self._check_receivers(stream, edges, tasks)
        declared = self._plan.wiring.streams[self._source[0]][stream]
        if not edges:
            return self._next_capacity(stream, size, 0)
        columns = list(columns) if declared.schema is None else typed(self._source[0], stream, declared.schema, columns)
        in_arrow = [*map(as_arrow_if_plain, columns)] if any(edge.takes_columns for edge in edges) else columns
        for edge in edges:
            sent = in_arrow if edge.takes_columns else columns
            for index, share in enumerate(self._router(edge).route(size, sent, tasks)):
                if size_of(share, size):
                    largest = max(largest, self._send((edge.component, index), stream, size, sent, items, share))
        self.encode_ms += (perf_counter() - started) * 1000
        return self._next_capacity(stream, size, largest)

    def check(self, stream: str, row: Any) -> None:
        """Raise the error of `send` for this row. For rounds that search for a value that cannot be sent."""
        edges = self._edges.get(stream, ())
        if not edges:
            return
        declared = self._plan.wiring.streams[self._source[0]][stream]
        tasks, values = ([row[0]], row[1]) if declared.direct else ([], row)
        self._check_receivers(stream, edges, tasks)
        if declared.schema is not None:
            typed(self._source[0], stream, declared.schema, [[value] for value in values])
        if stream not in self._checks:
            routers = ((edge, new_router(self._plan, edge, self.context)) for edge in edges)
            self._checks[stream] = RowChecks(routers)
        self._checks[stream].check(self._source[0], stream, *self._sent_values(declared.fields, values), values)

    def forward(self, checkpoint: CheckpointTuple) -> None:
        """Forward PREPARE after everything sent so far.

        For bolts, the end of their input stands for PREPARE. Only an acker gets a message: the task's contribution to
        its trees.
        """
        wiring, component = self._plan.wiring, self._source[0]
        if component not in wiring.task_ids or component == ACKER_ID or not wiring.ackers:
            return
        blobs = [] if self._tracker is None else self._tracker.blobs(wiring.ackers)
        for task in self._plan.wiring.tasks[ACKER_ID]:
            blob = blobs[task[1]] if task[1] < len(blobs) else b""
            moves = self.moves.get(task[1], b"")
            if blob or moves:
                number = self._sent[task]
                message = messages.ContributionMessage(self._source, self._attempt, number, blob, moves)
                self._append(task, messages.encode_message(message))

    def give_up(self) -> None:
        """Send all tasks of downstream bolts the message that this task failed."""
        payload = messages.encode_message(messages.GaveUpMessage(self._source))
        for task in self._plan.wiring.behind(self._source):
            self._send_on(*self._plan.wiring.places[task], payload)

    def report(self, report: messages.TaskReport) -> None:
        """Add the figures of the sent blobs to the task's report, and send it to the driver."""
        report.bytes_out = self.bytes_out
        report.encode_ms = self.encode_ms
        report.ended_at = time()
        report.sent = self._tallies()
        # The report takes the same partition number through each stage.
        self._send_on(self._plan.wiring.driver_level, self._source[1], messages.encode_report(report))

    def take(self) -> list[messages.Envelope]:
        """Return the envelopes that wait to be sent, and forget them."""
        out, self.out = self.out, []
        return out

    def _check_receivers(self, stream: str, edges: Sequence[Edge], tasks: Sequence[int]) -> None:
        """Refuse a tuple that was emitted directly to a task which does not subscribe to the stream."""
        direct = [edge for edge in edges if edge.direct] if tasks else []
        if not direct:
            return
        receivers = {task for edge in direct for task in self._plan.wiring.task_ids[edge.component]}
        for task in tasks:
            if task not in receivers:
                raise TopologyError(
                    f"component {self._source[0]!r} emitted directly to task {task} on stream {stream!r}, which none "
                    f"of its receivers has: {', '.join(edge.component for edge in direct)} have the tasks "
                    f"{sorted(receivers)}. Take the id from context.get_component_tasks.",
                    component=self._source[0],
                )

    def _router(self, edge: Edge) -> Router:
        key = (edge.component, edge.stream_id.stream)
        if key not in self._routers:
            self._routers[key] = new_router(self._plan, edge, self.context)
        return self._routers[key]

    def _send(
        self,
        task: TaskKey,
        stream: str,
        size: int,
        columns: Sequence[Column],
        items: Sequence[Item] | None,
        share: Positions,
    ) -> int:
        if items is not None and share is not ALL:
            items = taken(items, share)
        if self.excluded and items is not None:
            kept = [position for position, item in enumerate(items) if item not in self.excluded]
            if not kept:
                return 0
            import numpy as np  # only where tuple trees are tracked

            share = np.arange(size)[share][kept]
            items = [items[position] for position in kept]
        size = size_of(share, size)
        if self._plan.wiring.batch_spout:
            columns = columns[1:]  # without the attempt, which the receiver knows
        if share is not ALL:
            columns = [taken(column, share) for column in columns]
        lineage = None
        if self._tracker is not None and items is not None:
            lineage = self._tracker.send(items)
        parts = None if lineage is None else lineage.parts()
        sender = (self._source, self.context.this_task_id, self._attempt)
        try:
            payload = messages.encode_message(
                messages.TuplesMessage(*sender, self._sent[task], stream, size, columns, parts)
            )
        except UnsupportedValue:
            fields, _ = self._sent_values(self._plan.wiring.streams[self._source[0]][stream].fields, ())
            values = [as_list(column) for column in columns]
            raise refused_value(f"component {self._source[0]!r}", stream, fields, values) from None
        self._append(task, payload)
        return len(payload)

    def _sent_values(self, fields: Sequence[str], values: Sequence[Any]) -> tuple[Sequence[str], Sequence[Any]]:
        """Return the fields and the values to send: without the attempt, which the receiver knows."""
        return (fields[1:], values[1:]) if self._plan.wiring.batch_spout else (fields, values)

    def _append(self, task: TaskKey, payload: bytes) -> None:
        level, partition = self._plan.wiring.places[task]
        self._sent[task] += 1
        self.bytes_out += len(payload)
        self._send_on(level, partition, payload)

    def _send_on(self, level: int, destination: int, payload: bytes) -> None:
        partition = self._plan.wiring.next_partition(self._home, level, destination)
        self.out.append(messages.Envelope(partition, level, destination, payload))

    def _tallies(self) -> dict[str, Tally]:
        """Return the tallies of sent blobs, by receiving component."""
        tallies: dict[str, Tally] = {}
        for task, blobs in self._sent.items():
            one = tally([(self._source, self._attempt, task, blobs)])
            tallies[task[0]] = tallies.get(task[0], NOTHING).plus(one)
        return tallies

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


def new_router(plan: ExecutionPlan, edge: Edge, context: TopologyContext) -> Router:
    """Return a router of the task with this context, in its first state."""
    return ROUTERS["chained" if edge.chained else edge.grouping.name](
        copy.deepcopy(edge.grouping),  # a custom grouping may keep state, so each emitting task has a copy
        stream=edge.stream_id,
        fields=plan.wiring.streams[edge.stream_id.component][edge.stream_id.stream].fields,
        target_tasks=plan.wiring.task_ids[edge.component],
        context=context,
    )
