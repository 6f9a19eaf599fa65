"""A connection never blocks: what cannot be sent at once waits, and its end is noticed."""

import select
import socket
import threading
from collections.abc import Iterator

import pytest

from anchorbolt.engine.workers.frames import HEAD, Frame, Kind
from anchorbolt.engine.workers.links import Link
from anchorbolt.errors import SerializationError

MOST = 64 << 20


@pytest.fixture
def pair() -> Iterator[tuple[Link, Link]]:
    links = tuple(map(Link, socket.socketpair()))
    yield links  # type: ignore[misc]
    for link in links:
        link.close()


def test_what_the_other_side_does_not_take_waits_in_order(pair: tuple[Link, Link]) -> None:
    sender, receiver = pair
    frames: list[Frame] = []
    while not sender.bytes_waiting:
        frames.append(Frame(Kind.BLOB, len(frames), payload=b"x" * 100_000))
        sender.send(frames[-1])
        assert sender.bytes_sent < MOST
    frames += [Frame(Kind.BLOB, len(frames) + each, payload=b"y") for each in range(3)]
    for frame in frames[-3:]:
        sender.send(frame)
    found: list[Frame] = []
    while len(found) < len(frames):
        found += receiver.receive()
        sender.flush()
    assert found == frames
    assert (sender.bytes_waiting, receiver.is_cut) == (0, False)
    assert receiver.receive() == []


def test_a_fast_sender_does_not_make_the_receiver_take_all_at_once(pair: tuple[Link, Link]) -> None:
    sender, receiver = pair
    sent = 100
    ready = select.poll()
    ready.register(receiver.socket, select.POLLIN)

    def send() -> None:
        sender.socket.setblocking(True)
        for _ in range(sent):
            sender.socket.sendall(Frame(Kind.BLOB, payload=b"x" * 1_000_000).encoded())

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    found: list[int] = []
    while sum(found) < sent:
        assert ready.poll(30_000)
        found.append(len(receiver.receive()))
    thread.join()
    assert max(found) <= 6


def test_the_frames_before_the_end_of_a_connection_still_count(pair: tuple[Link, Link]) -> None:
    sender, receiver = pair
    sender.send(Frame(Kind.STOP))
    sender.socket.sendall(HEAD.pack(5, Kind.BLOB, 0, 0, 0) + b"12")
    sender.close()
    assert receiver.receive() == [Frame(Kind.STOP)]
    assert receiver.is_cut
    with pytest.raises(EOFError, match="within a frame"):
        receiver.receive()


def test_the_end_between_two_frames_is_another_end(pair: tuple[Link, Link]) -> None:
    pair[0].close()
    with pytest.raises(EOFError, match="was ended"):
        pair[1].receive()
    assert not pair[1].is_cut


def test_bytes_that_are_no_frame_are_an_error(pair: tuple[Link, Link]) -> None:
    pair[0].socket.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    with pytest.raises(SerializationError):
        pair[1].receive()
