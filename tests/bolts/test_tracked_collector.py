"""Which roots an emitted tuple gets from its anchors, and which anchors are refused."""

from typing import Any

import pytest

from anchorbolt.bolts.tracked_collector import TrackedOutputCollector
from anchorbolt.errors import TopologyError
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.streams.tuple import Item, StreamHeader, TrackedTuple, receiver_key

OWN = StreamHeader("in", 0, "default", ("word",), receiver_key("join", 0))
OTHER = StreamHeader("in", 0, "default", ("word",), receiver_key("join", 1))


class Sent(TrackedOutputCollector):
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

    def _keep(self, stream: str, rows: list[Any], items: list[Item]) -> int:
        self.roots += items
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
    collector = Sent()
    emit(collector, anchors, direct=direct)
    collector.flush()
    assert collector.roots == [roots]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("wrong", ["acked", "failed", "sent elsewhere", "no tuple"])
def test_a_wrong_anchor_among_others_is_refused(wrong: str, place: int, direct: bool) -> None:
    collector = Sent()
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
