"""Runs the tasks of a topology in this process, level by level, in a seeded random order."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.local.workers import Workers
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.bolt_task import run_bolt_task
from anchorbolt.engine.task.messages import Envelope, TaskReport, decode_message, reports_in


def run_levels(
    plan: ExecutionPlan,
    rows: Iterable[Envelope],
    current: Round,
    workers: Workers,
    order: random.Random,
    check: Callable[[], None] = lambda: None,
) -> list[TaskReport]:
    """Run the tasks of each level in a random order; the blobs of one sender keep their order.

    Args:
        plan: The plan.
        rows: The blobs that the spouts send.
        current: The round.
        workers: The workers that run the tasks.
        order: Chooses the order.
        check: Called before each task; may raise.
    """
    waiting = list(rows)
    for level in plan.wiring.levels:
        inputs: defaultdict[int, list[Envelope]] = defaultdict(list)
        for row in waiting:
            inputs[row.partition].append(row)
        waiting = []
        partitions = list(range(len(level)))
        order.shuffle(partitions)
        for partition in partitions:
            check()
            arriving = _interleaved(inputs[partition], order)
            waiting.extend(run_bolt_task(plan, level[partition], current, workers.choose(level[partition]), arriving))
    return reports_in(waiting, current)


def _interleaved(rows: list[Envelope], order: random.Random) -> Iterator[Envelope]:
    """Yield rows in a random order that keeps the order of each sender's rows."""
    senders: dict[object, list[Envelope]] = defaultdict(list)
    for row in rows:
        message = decode_message(row.payload)
        senders[row.level, row.destination, message.source].append(row)
    queues = [iter(queue) for queue in senders.values()]
    while queues:
        position = order.randrange(len(queues))
        try:
            yield next(queues[position])
        except StopIteration:
            queues.pop(position)
