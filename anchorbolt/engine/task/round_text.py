"""Encodes a round as a short text, which Spark sends to each task of its job; names the attempts on Spark. Pure.

Each task gets the committed position of every namespace, and the winning attempt of every task. To keep this small with
many tasks, an attempt's name follows from its round and from Spark's number of the task's execution. In the plan's
order, these numbers are almost consecutive, and compress to a few bits per task.
"""

from __future__ import annotations

import pickle
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from anchorbolt.checkpoint.decision import Committed
from anchorbolt.checkpoint.ports import HandOff, Round, TaskKey
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.serialization import pack, unpack

K = TypeVar("K")
V = TypeVar("V")

_ATTEMPT = re.compile("([0-9a-f]{14})([0-9a-f]{8})([0-9a-f]{10})")
"""The id of an attempt: the beginning of its run's id, the `seq` of its round, and the execution."""


def attempt_id(plan: ExecutionPlan, current: Round, execution: int, position: int = 0) -> str:
    """Name an attempt.

    `execution` is a number that is unique to the execution of a partition in this Spark application, and `position` the
    task's position in its partition.
    """
    return _id(plan.run_id[:14], current.fence.seq, execution + (position % 256 << 32))


def _id(run: str, seq: int, execution: int) -> str:
    return f"{run}{seq:08x}{execution:010x}"


def round_to_text(plan: ExecutionPlan, current: Round) -> str:
    """Encode a round, without namespaces and tasks that the plan does not have."""
    winners = (current.task_winners.get(task) for task in plan.wiring.namespaces.values())
    batch, hand_offs = current.batch, None
    if batch is not None and batch.hand_offs is not None:
        kept = [batch.hand_offs.get(task) for task in plan.wiring.places]
        attempts = _encoded(None if each is None else Committed(0, each.attempt) for each in kept)
        hand_offs = attempts, bytes(each is not None and each.holds_instance for each in kept)
        batch = replace(batch, hand_offs={})
    parts = (
        _encoded(map(current.committed.get, plan.wiring.namespaces)),
        _encoded(None if winner is None else Committed(0, winner) for winner in winners),
        hand_offs,
        pickle.dumps(replace(current, committed={}, task_winners={}, batch=batch)),
    )
    return b64encode(zlib.compress(pack(parts))).decode()


def round_from_text(plan: ExecutionPlan, text: str) -> Round:
    """Decode a round of this plan from the text of `round_to_text`."""
    committed, winners, hand_offs, pickled = unpack(zlib.decompress(b64decode(text)))
    current: Round = pickle.loads(pickled)  # noqa: S301 - made by this run's own driver
    batch, positions = current.batch, plan.wiring.state_positions
    if batch is not None and hand_offs is not None:
        attempts, flags = hand_offs
        kept: Mapping[TaskKey, HandOff] = _Entries(
            plan.wiring.places,
            partial(_place_in_order, plan),
            attempts,
            lambda position, entry: HandOff(entry.attempt, bool(flags[position])),
        )
        batch = replace(batch, hand_offs=kept)
    namespaces = plan.wiring.namespaces
    return replace(
        current,
        committed=_Entries(namespaces, lambda name: positions[namespaces[name]], committed, lambda _, entry: entry),
        task_winners=_Entries(positions, positions.__getitem__, winners, lambda _, entry: entry.attempt),
        batch=batch,
    )


def _encoded(entries: Iterable[Committed | None]) -> Sequence[Any]:
    """Return the rounds of the entries, as columns, and for each entry its round and execution.

    An attempt with any other name is stored as it is.
    """
    found: list[tuple[int, str, int, int] | None] = []  # for each entry: txid, run, seq, execution
    others: dict[int, tuple[int, str]] = {}
    for position, entry in enumerate(entries):
        match = None if entry is None else _ATTEMPT.fullmatch(entry.attempt)
        found.append(None)
        if entry is not None and match is not None:
            found[position] = entry.txid, match[1], int(match[2], 16), int(match[3], 16)
        elif entry is not None:
            others[position] = entry.txid, entry.attempt
    rounds = sorted({each[:3] for each in found if each is not None}, reverse=True)
    numbers = {each: number for number, each in enumerate(rounds, start=1)}
    firsts: dict[int, int] = {}
    of_round, of_execution = [], []
    for position, each in enumerate(found):
        number = 0 if each is None else numbers[each[:3]]
        of_round.append(number)
        # Spark numbers the executions of a stage almost in the order of its tasks, which is the plan's order.
        of_execution.append(0 if each is None else each[3] - position - firsts.setdefault(number, each[3] - position))
    runs = sorted({run for _, run, _ in rounds})
    columns = [
        _differences([txid for txid, _, _ in rounds]),
        [runs.index(run) for _, run, _ in rounds],
        _differences([seq for _, _, seq in rounds]),
        _differences([firsts[number] for number in range(1, len(rounds) + 1)]),
    ]
    return runs, columns, bytes(number & 255 for number in of_round), [n >> 8 for n in of_round], of_execution, others


def _differences(numbers: Sequence[int]) -> list[int]:
    return [number - before for before, number in pairwise((0, *numbers))]


class _Column:
    """The entries of all namespaces, in the order of the plan."""

    def __init__(self, encoded: Sequence[Any]) -> None:
        self._runs, columns, low, high, self._of_execution, self._others = encoded
        txids, runs, seqs, firsts = columns
        self._rounds = list(zip(accumulate(txids), runs, accumulate(seqs), accumulate(firsts), strict=True))
        self._of_round = [one + (other << 8) for one, other in zip(low, high, strict=True)]

    def at(self, position: int) -> Committed | None:
        number = self._of_round[position]
        if number:
            txid, run, seq, first = self._rounds[number - 1]
            return Committed(txid, _id(self._runs[run], seq, self._of_execution[position] + position + first))
        return Committed(*self._others[position]) if position in self._others else None

    def positions(self) -> Iterator[int]:
        """Yield the positions that have an entry."""
        return (position for position, number in enumerate(self._of_round) if number or position in self._others)


class _Entries(Mapping[K, V]):
    """The entries of a column by key; `keys` are in the column's order."""

    def __init__(
        self,
        keys: Iterable[K],
        position_of: Callable[[K], int],  # raises `KeyError`
        encoded: Sequence[Any],
        value_of: Callable[[int, Committed], V],  # at a position
    ) -> None:
        self._keys = keys
        self._position_of = position_of
        self._column = _Column(encoded)
        self._value_of = value_of

    def __getitem__(self, key: K) -> V:
        position = self._position_of(key)
        entry = self._column.at(position)
        if entry is None:
            raise KeyError(key)
        return self._value_of(position, entry)

    def __iter__(self) -> Iterator[K]:
        keys = list(self._keys)
        return (keys[position] for position in self._column.positions())

    def __len__(self) -> int:
        return sum(1 for _ in self._column.positions())


def _place_in_order(plan: ExecutionPlan, task: TaskKey) -> int:
    """Return the position of a task in `plan.wiring.places`."""
    level, partition = plan.wiring.places[task]
    return sum(map(len, plan.wiring.levels[: level - 1])) + partition
