"""What a vectorised bolt may emit, and which errors name what it may not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anchorbolt.bolts import ArrowOutputCollector, OutputCollector
from anchorbolt.errors import CollectorClosed, TopologyError, UnsupportedValue
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import rows_of
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.streams.tuple import Item

TYPED = pa.schema([("word", pa.string()), ("count", pa.int64())])
STREAMS = {
    "default": StreamDeclaration(("word", "count")),
    "typed": StreamDeclaration(("word", "count"), schema=TYPED),
    "direct": StreamDeclaration(("word",), direct=True),
}


class Sent(list[Any]):
    def __init__(self, *, must_anchor: bool = False, most_bytes: int = 1 << 20) -> None:
        self.rows = OutputCollector("split", STREAMS, self.flush, must_anchor=True)
        self.rows.most_bytes = most_bytes
        self.collector = ArrowOutputCollector(self.rows, is_tracked=True, must_anchor=must_anchor)
        self.items: list[Item] = []

    def flush(self, stream: str, buffer: Buffer) -> int:
        self.append((stream, list(rows_of(buffer.size, buffer.columns))))
        self.items += buffer.items
        return 1


WORDS, COUNTS = ["a", "b"], [1, 2]
ROWS = [("a", 1), ("b", 2)]


@pytest.mark.parametrize("stream", ["default", "typed"])
@pytest.mark.parametrize(
    "columns",
    [
        [pa.array(WORDS), pa.array(COUNTS)],
        [pa.chunked_array([["a"], ["b"]]), np.array(COUNTS)],
        [WORDS, COUNTS],
        [pa.array(WORDS).dictionary_encode(), pa.array(COUNTS, pa.int8())],
        pa.record_batch([WORDS, COUNTS], names=["word", "count"]),
        pa.table([WORDS, COUNTS], names=["word", "count"]),
    ],
    ids=["arrays", "chunks and numpy", "lists", "dictionary", "batch", "table"],
)
def test_columns_of_every_kind_are_the_same_tuples(columns: Any, stream: str) -> None:
    sent = Sent()
    sent.collector.emit_batch(columns, stream=stream)
    assert sent == [(stream, ROWS)]
    assert sent.rows.emitted == 2


def test_a_large_block_is_sent_in_parts() -> None:
    sent = Sent(most_bytes=10_000)
    sent.collector.begin_block(5000, [number + 1 for number in range(5000)], ("in", "default", 0))
    sent.collector.emit_batch([["x" * 20] * 5000, list(range(5000))], parents=np.arange(5000))
    assert [row[1] for _, rows in sent for row in rows] == list(range(5000))
    assert sent.items == [number + 1 for number in range(5000)]
    assert max(len(rows) for _, rows in sent) < 1000


@pytest.mark.parametrize(
    ("parents", "items"),
    [
        ([0, 2], [7, (8, 9)]),
        (pa.array([2, 0]), [(8, 9), 7]),
        (np.array([1, 1]), [(), ()]),
        ([[0, 2], []], [(7, 8, 9), ()]),
        (pa.array([[0, 1], [2]]), [7, (8, 9)]),
    ],
    ids=str,
)
def test_an_emitted_tuple_has_the_roots_of_its_parents(parents: Any, items: list[Item]) -> None:
    sent = Sent(must_anchor=True)
    sent.collector.begin_block(3, [7, (), (8, 9)], ("in", "default", 0))
    sent.collector.emit_batch([WORDS, COUNTS], parents=parents)
    assert sent.items == items


Emit = Callable[[ArrowOutputCollector], None]
REFUSED: dict[str, tuple[Emit, type[Exception], str]] = {
    "undeclared stream": (lambda to: to.emit_batch([WORDS], stream="late"), TopologyError, "declare_output_fields"),
    "direct stream": (lambda to: to.emit_batch([WORDS], stream="direct"), TopologyError, "direct"),
    "one column": (lambda to: to.emit_batch([WORDS]), TopologyError, "word, count"),
    "lengths": (lambda to: to.emit_batch([WORDS, [1]]), TopologyError, "word 2, count 1"),
    "other names": (lambda to: to.emit_batch(pa.table([WORDS], names=["x"])), TopologyError, "Select and rename"),
    "parents too few": (lambda to: to.emit_batch([WORDS, COUNTS], parents=[0]), TopologyError, "one for each"),
    "parent outside": (lambda to: to.emit_batch([WORDS, COUNTS], parents=[0, 3]), TopologyError, "3 tuples"),
    "negative parent": (lambda to: to.emit_batch([WORDS, COUNTS], parents=[0, -1]), TopologyError, "3 tuples"),
    "no position": (lambda to: to.emit_batch([WORDS, COUNTS], parents=["a", "b"]), TopologyError, "3 tuples"),
    "one dict": (lambda to: to.emit_batch({"word": WORDS, "count": COUNTS}), TopologyError, "from_pydict"),
    "a frame": (lambda to: to.emit_batch(pd.DataFrame({"word": WORDS, "count": COUNTS})), TopologyError, "from_pandas"),
    "text": (lambda to: to.emit_batch(["ab", COUNTS]), UnsupportedValue, "'word'"),
    "mixed": (lambda to: to.emit_batch([WORDS, [1, "a"]]), UnsupportedValue, "'count'"),
    "declared type": (lambda to: to.emit_batch([WORDS, WORDS], stream="typed"), UnsupportedValue, "int64"),
    "nanoseconds": (
        lambda to: to.emit_batch([WORDS, pa.array([1, 2], pa.timestamp("ns"))]),
        UnsupportedValue,
        "microseconds",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("emit", "kind", "hint"), REFUSED.values(), ids=REFUSED)
def test_wrong_emits(emit: Emit, kind: type[Exception], hint: str) -> None:
    sent = Sent()
    sent.collector.begin_block(3, None, ("in", "default", 0))
    with pytest.raises(kind) as refusal:
        emit(sent.collector)
    assert "'split'" in str(refusal.value)
    assert hint in str(refusal.value)
    assert sent == []


def test_tuples_without_parents_are_refused_if_messages_are_tracked() -> None:
    sent = Sent(must_anchor=True)
    sent.collector.begin_block(3, None, ("in", "default", 0))
    with pytest.raises(TopologyError, match="parents="):
        sent.collector.emit_batch([WORDS, COUNTS])
    sent.collector.emit_batch([[], []])


def test_a_closed_collector_takes_no_block() -> None:
    sent = Sent()
    sent.rows.close()
    with pytest.raises(CollectorClosed):
        sent.collector.emit_batch([WORDS, COUNTS])
