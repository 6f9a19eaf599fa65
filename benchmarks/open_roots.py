"""Memory for each open root: `python -m benchmarks.open_roots --roots 1000000`.

Opens trees wave by wave, as messages that a bolt keeps do, and prints the bytes for each: in an acker's process, in its
store, and on the driver besides the message id. The figures count what Python and NumPy have allocated. With few roots
the parts that do not grow with them weigh more: compare with the limits at a million.
"""

import gc
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.serialization.msgpack_values import pack_many
from anchorbolt.spouts.intake import Chunk
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.streams.lineage import ids_of
from anchorbolt.tracking.blob import decode_blob
from anchorbolt.tracking.contributions import Contributions
from anchorbolt.tracking.in_flight import InFlight
from anchorbolt.tracking.ledger import merge
from anchorbolt.tracking.redelivery import Redelivery
from anchorbolt.tracking.sorted_roots import Roots
from anchorbolt.tracking.stored_trees import tree_state
from anchorbolt.tracking.verdict import Verdict

_SPOUT, _BOLT = 1, 2  # ids of their tasks
_PER_WAVE = 100_000  # as `topology.spout.intake.tuples`
_PER_CHUNK = 16_384


class Figure(NamedTuple):
    """Bytes for each open root."""

    what: str
    held: float  # when all are open
    peak: float | None  # while they were opened; None if it is not measured
    limit: int


def message_id(number: int) -> str:
    """Return an id like one of `RedisStreamsSpout`."""
    return f"{1_526_919_030_474 + number}-0"


def acker(roots: int) -> list[Figure]:
    """Open the trees in an acker with state in SQLite."""
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as folder:
        storage = SqliteStateProvider(Path(folder)).open("bench:__acker-0")
        with closing(storage):
            held, peak = _measured(lambda: _open_in_acker(storage, roots), roots)
            stored = sum(len(key) + len(value) for page in storage.scan() for key, value in page) / roots
    ids = sum(map(len, pack_many(map(message_id, range(roots))))) / roots
    return [
        Figure("an acker's process", held, peak, 40),
        Figure("its store, besides the message id", stored - ids, None, 24),
    ]


def driver(roots: int) -> Figure:
    """Open the trees on the driver: what it knows of them, and of the messages of a spout with stable ids."""
    ids = [message_id(number) for number in range(roots)]
    return Figure("the driver, besides the message id", *_measured(lambda: _open_on_driver(ids), roots), 150)


def _open_in_acker(storage: StateStorage, roots: int) -> object:
    state, before = tree_state(storage), AttemptScope(Fence(1, 0), -1, "")
    for txid, (start, stop) in enumerate(_waves(roots)):
        scope = AttemptScope(Fence(1, txid), txid, f"{txid:032x}", before.txid, before.attempt)
        state.begin(scope)
        merge([decode_blob(blob) for blob in _blobs(start, stop)], state)
        state.prepare_commit(txid)
        state.commit(txid)
        before = scope
    return state


def _blobs(start: int, stop: int) -> list[bytes]:
    """Return what a spout's task and a bolt's task tell the acker: the bolt keeps all tuples."""
    roots, spout, bolt = ids_of(1 + start, stop - start), Contributions(), Contributions()
    spout.open_trees(roots, pack_many(map(message_id, range(start, stop))))
    spout.add(roots, ids_of((1 << 40) + start, stop - start))
    bolt.hold(roots)
    return [*spout.blobs(1, _SPOUT), *bolt.blobs(1, _BOLT)]


def _open_on_driver(ids: Sequence[str]) -> object:
    in_flight = InFlight("bench", {_SPOUT: ("in", 0), _BOLT: ("keeps", 0)}, 30, excludes=True)
    redelivery = Redelivery("in")
    for number, (start, stop) in enumerate(_waves(len(ids))):
        for msg_id in ids[start:stop]:
            redelivery.emit(msg_id, 0)
        ends = [*range(start, stop, _PER_CHUNK), stop]
        chunks = [
            Chunk("default", end - first, b"", ids[first:end], [(end - first, float(first))])
            for first, end in pairwise(ends)
        ]
        rooted = in_flight.begin({_SPOUT: chunks}, now=number)
        opened: list[Roots] = [roots for _, roots in rooted[_SPOUT]]
        in_flight.judge([Verdict(opened=np.sort(np.concatenate(opened)))])
        in_flight.settle(now=number)
    in_flight.begin({}, now=0)  # the last wave's intake is not kept either
    return in_flight, redelivery


def _waves(roots: int) -> Iterator[tuple[int, int]]:
    return pairwise([*range(0, roots, _PER_WAVE), roots])


def _measured(open_all: Callable[[], object], roots: int) -> tuple[float, float]:
    """Return the bytes for each root, at the end and at the most."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = open_all()
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
        del kept
    finally:
        tracemalloc.stop()
    return held / roots, peak / roots


def show(console: Console, roots: int) -> None:
    """Measure, and print a table."""
    table = Table(f"bytes for each of {roots:,} open roots", "held", "at the most", "limit")
    for figure in (*acker(roots), driver(roots)):
        peak = "" if figure.peak is None else f"{figure.peak:.1f}"
        table.add_row(figure.what, f"{figure.held:.1f}", peak, str(figure.limit))
    console.print(table)


def main(roots: Annotated[int, typer.Option(min=1, help="How many trees are opened.")] = 1_000_000) -> None:
    """Measure the memory for open trees."""
    show(Console(), roots)


if __name__ == "__main__":
    typer.run(main)
