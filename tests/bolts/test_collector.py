"""Collectors send full buffers, and refuse wrong emits; the roots of an emitted tuple, from its anchors."""

from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.bolts import BasicOutputCollector, OutputCollector
from anchorbolt.bolts.collector import Untracked
from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.state_backends.timed.timers import Timer
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import rows_of
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.streams.tuple import Item, StreamHeader, TrackedTuple, receiver_key

STREAMS = {"default": StreamDeclaration(("word", "count")), "to-task": StreamDeclaration(("word",), direct=True)}


class Sent(list[tuple[str, list[Any]]]):
    def flush(self, stream: str, buffer: Buffer) -> int:
        rows: list[Any] = list(rows_of(buffer.size, buffer.columns))
        self.append((stream, list(zip(buffer.tasks, rows, strict=True)) if buffer.tasks else rows))
        return 2


def collector(sent: Sent, *, must_anchor: bool = False) -> OutputCollector:
    return OutputCollector("split", STREAMS, sent.flush, must_anchor=must_anchor)


def test_buffers_are_sent_when_they_are_full_and_at_the_end_of_a_wave() -> None:
    sent = Sent()
    emits = collector(sent)
    for number in range(513):
        emits.emit(["a", number])
    assert [(stream, len(rows)) for stream, rows in sent] == [("default", 512)], "the first buffer"
    emits.emit(("b", 0))
    assert [rows for _, rows in sent[1:]] == [[("a", 512), ("b", 0)]], "as many as flush asked for"
    emits.emit_direct(7, ("c",), stream="to-task")
    BasicOutputCollector(emits).emit_direct(8, ["d"], stream="to-task")
    emits.emit(("e", 1))
    emits.flush()
    assert sent[2:] == [("default", [("e", 1)]), ("to-task", [(7, ("c",)), (8, ("d",))])]
    assert emits.emitted == 517


class Largest(Sent):
    """Asks for buffers without an end; keeps how many rows each had."""

    def flush(self, stream: str, buffer: Buffer) -> int:
        self.append((stream, [buffer.size]))
        return 1 << 20

    @property
    def rows(self) -> list[int]:
        return [size for _, [size] in self]


LARGE: dict[str, Any] = {"bytes": b"x" * 1000, "text": "x" * 1000, "list": ["x" * 500] * 2, "dict": {1: ["x" * 1000]}}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_a_buffer_of_large_values_is_sent_before_it_has_as_many_rows_as_wanted(value: Any) -> None:
    sent = Largest()
    emits = collector(sent)
    emits.most_bytes = 100_000
    for _ in range(3):
        for number in range(600):
            emits.emit((value, number))
        emits.flush()
    assert sum(sent.rows) == 1800
    assert max(sent.rows) <= 128


def test_values_that_become_larger_do_not_fill_the_buffer_that_small_ones_had() -> None:
    sent = Largest()
    emits = collector(sent)
    emits.most_bytes = 1_000_000
    for number in range(20_000):
        emits.emit(("a", number))
    assert sent.rows == [512]
    for number in range(3000):
        emits.emit(("x" * 1000, number))
    emits.emit_direct(7, ("c",), stream="to-task")
    emits.flush()
    assert max(sent.rows[2:-1]) <= 2048


def test_a_list_that_holds_itself_is_refused_only_when_it_is_sent() -> None:
    endless: list[Any] = []
    endless.append(endless)
    emits = collector(sent := Largest())
    for number in range(100):
        emits.emit((endless, number))
    emits.flush()
    assert sent.rows == [100]


def test_a_new_wave_starts_with_empty_buffers() -> None:
    sent = Sent()
    emits = collector(sent)
    for _ in range(100):
        emits.emit(("a" * 1_000, 1))
    emits.begin()
    emits.flush()
    assert sent == []
    assert emits.emitted == 0
    emits.most_bytes = 90_000
    for _ in range(64):
        emits.emit(("a" * 1_000, 1))
    assert sent == [], "the size of the dropped rows does not count"


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "undeclared stream": (lambda emits: emits.emit(("a", 1), stream="late"), "declare_output_fields"),
    "undeclared direct stream": (lambda emits: emits.emit_direct(1, ("a",), stream="late"), "declare_output_fields"),
    "emit to a direct stream": (lambda emits: emits.emit(("a",), stream="to-task"), "Use emit_direct"),
    "emit_direct to another stream": (lambda emits: emits.emit_direct(1, ("a", 1)), "Use emit,"),
    "a value that is not in a tuple": (lambda emits: emits.emit("ab"), "(value,)"),
    "an anchor that is no tuple": (lambda emits: emits.emit(("a", 1), anchors="x"), "'x', of type str"),
    "a list of such anchors": (lambda emits: emits.emit_direct(1, ("a",), anchors=[3], stream="to-task"), "3, of type"),
    "an ack of a timer": (lambda emits: emits.ack(Timer("a", "", 1, "event")), "no ack"),
    "a failure of a window": (lambda emits: emits.fail(Untracked()), "no ack"),
    "an ack of something else": (lambda emits: emits.ack("t"), "ack('t')"),
    "a failure of something else": (lambda emits: emits.fail(None), "fail(None)"),
    "too few values": (lambda emits: (emits.emit(("a",)), emits.flush()), "word, count"),
}


@pytest.mark.parametrize(("emit", "hint"), REFUSED.values(), ids=REFUSED)
def test_wrong_emits(emit: Callable[[Any], object], hint: str) -> None:
    with pytest.raises(TopologyError) as refusal:
        emit(collector(Sent()))
    assert refusal.value.component == "split"
    assert hint in refusal.value.message


@pytest.mark.parametrize(
    "emit", [lambda emits: emits.emit(("a", 1)), lambda emits: emits.emit_direct(1, ("a",), stream="to-task")]
)
def test_an_emit_without_anchors_in_a_stateful_topology(emit: Callable[[OutputCollector], None]) -> None:
    with pytest.raises(TopologyError, match="anchors=tup, anchors=timer or anchors=window"):
        emit(collector(Sent(), must_anchor=True))


OWN = StreamHeader("in", 0, "default", ("word",), receiver_key("join", 0))
OTHER = StreamHeader("in", 0, "default", ("word",), receiver_key("join", 1))


class Tracked(TrackedOutputCollector):
    """A collector that keeps the roots of what it sends, by stream."""

    def __init__(self) -> None:
        self.roots: list[Item] = []
        streams = {"default": StreamDeclaration(("word",)), "direct": StreamDeclaration(("word",), True)}
        super().__init__(
            "join",
            streams,
            self._keep,
            must_anchor=False,
            task_index=0,
            untracked_fail=False,
            strict=True,
            fail_has_effect=True,
        )

    def _keep(self, stream: str, buffer: Buffer) -> int:
        self.roots += buffer.items
        return 1


def a_tuple(*roots: int, header: StreamHeader = OWN) -> TrackedTuple:
    return TrackedTuple(("a",), header, roots[0] if len(roots) == 1 else roots, 9)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    ("anchors", "roots"),
    [
        (a_tuple(5), 5),
        (a_tuple(5, 6), (5, 6)),
        ([a_tuple(5), a_tuple(6)], (5, 6)),
        ((a_tuple(5), a_tuple(5)), 5),
        ((a_tuple(5, 6), a_tuple(), a_tuple(6, 7)), (5, 6, 7)),
        ((a_tuple(5), a_tuple(6).handle), (5, 6)),
        (a_tuple(5).handle, 5),
        ([], ()),
        (None, ()),
    ],
)
def test_an_emitted_tuple_has_each_root_of_its_anchors_once(anchors: Any, roots: Item, direct: bool) -> None:
    collector = Tracked()
    emit(collector, anchors, direct=direct)
    collector.flush()
    assert collector.roots == [roots]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("wrong", ["acked", "failed", "sent elsewhere", "no tuple"])
def test_a_wrong_anchor_among_others_is_refused(wrong: str, place: int, direct: bool) -> None:
    collector = Tracked()
    anchors: list[Any] = [a_tuple(5), a_tuple(6)]
    if wrong == "acked":
        collector.ack(anchors[place])
    elif wrong == "failed":
        collector.fail(anchors[place])
    else:
        anchors[place] = a_tuple(7, header=OTHER) if wrong == "sent elsewhere" else 7
    with pytest.raises(TopologyError) as raised:
        emit(collector, anchors, direct=direct)
    assert raised.value.component == "join"
    collector.flush()
    assert collector.roots == []


def emit(collector: TrackedOutputCollector, anchors: Any, *, direct: bool) -> None:
    if direct:
        collector.emit_direct(1, ("a",), anchors=anchors, stream="direct")
    else:
        collector.emit(("a",), anchors=anchors)
