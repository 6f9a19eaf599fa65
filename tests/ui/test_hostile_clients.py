"""Clients that are slow, many, huge or malformed: the page's server and that of the metrics answer others meanwhile."""

from __future__ import annotations

import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from statistics import median

import pytest

from anchorbolt.observe.web.metrics import MetricsServer, MetricsText
from anchorbolt.ui import UiServer
from tests.cli.command import wait_until
from tests.ui.conftest import Client, start

DEADLINE_S = 1.0
"""For most answers to good clients, whatever other clients do. All get one."""

MANY = 2000


@pytest.fixture(scope="module", autouse=True)
def many_files() -> Iterator[None]:
    """Let this process, which is both client and server here, have enough open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * MANY if hard == resource.RLIM_INFINITY else min(hard, 3 * MANY)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module", params=["page", "metrics"])
def target(request: pytest.FixtureRequest) -> Iterator[Client]:
    """One of the two servers, which shows a run."""
    ended = start([("a b a",)])
    assert ended.await_termination(30)
    server: UiServer | MetricsServer
    if request.param == "page":
        server = UiServer("words", port=0)
        server.show(ended)
    else:
        server = MetricsServer(0, MetricsText(ended.collector()))
    with closing(server):
        client = Client(server.address)
        client.ask("/metrics")  # now all its files are open
        yield client


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def assert_answers(client: Client) -> float:
    """Assert that a good client gets an answer; return after how many seconds."""
    began = time.monotonic()
    status, _, body = client.ask("/metrics")
    assert (status, b"anchorbolt_waves_total" in body) == (200, True)
    return time.monotonic() - began


def send(client: Client, data: bytes) -> bytes:
    """Send bytes as they are, and return all that the server answers."""
    answer = b""
    with socket.create_connection((client.host, client.port), timeout=30) as connection, suppress(OSError):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            answer += part
    return answer


@contextmanager
def connected(client: Client, number: int, data: bytes) -> Iterator[list[socket.socket]]:
    """Connections that have sent this, and no more."""
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            each = stack.enter_context(closing(socket.create_connection((client.host, client.port), timeout=30)))
            with suppress(ConnectionError):
                each.sendall(data)
            made.append(each)
        yield made


@pytest.mark.slow
@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(b"", id="silent", marks=pytest.mark.thorough),
        pytest.param(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", id="a header"),
        pytest.param(
            b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\ntoken=",
            id="a body",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_thousands_of_slow_clients_delay_no_other_and_leave_no_file_open(target: Client, begun: bytes) -> None:
    before = open_files()
    with connected(target, MANY, begun) as slow:
        target.ask("/healthz")  # the server has accepted all that came before
        took = []
        for number in range(20):
            took.append(assert_answers(target))
            for each in slow[number::20]:  # a little more, so that none is just idle
                with suppress(ConnectionError):
                    each.send(b"x")
        assert median(took) < DEADLINE_S
        assert open_files() - before - MANY < MANY / 4
    wait_until(lambda: open_files() <= before, "all are closed", 30)
    assert_answers(target)


@pytest.mark.thorough
def test_clients_that_do_not_take_their_answer_delay_no_other(target: Client) -> None:
    before = open_files()
    wanted = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5
    with connected(target, MANY // 4, wanted):
        target.ask("/healthz")
        assert median(assert_answers(target) for _ in range(10)) < DEADLINE_S
    wait_until(lambda: open_files() <= before, "all are closed", 30)


@pytest.mark.thorough
def test_a_flood_of_connections_delays_no_other_client(target: Client) -> None:
    before, over = open_files(), threading.Event()

    def flood() -> None:
        while not over.is_set():
            with suppress(OSError), socket.create_connection((target.host, target.port), timeout=1) as connection:
                connection.sendall(b"GET /metrics HTTP/1.1\r\n")

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert median(assert_answers(target) for _ in range(20)) < DEADLINE_S
    finally:
        over.set()
        thread.join()
    wait_until(lambda: open_files() <= before, "all are closed", 30)


HOST = b"Host: localhost\r\n"
BAD = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n",
    "a huge URL": b"GET /" + b"x" * 1_000_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a huge header": b"GET /metrics HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 1_000_000 + b"\r\n\r\n",
    "ten thousand headers": b"GET /metrics HTTP/1.1\r\n" + HOST + b"X: x\r\n" * 10_000 + b"\r\n",
    "a header without an end": b"GET /metrics HTTP/1.1\r\n" + HOST + b"X: x\r\n" * 100_000,
    "TRACE": b"TRACE /metrics HTTP/1.1\r\n" + HOST + b"X-Secret: echoed\r\n\r\n",
    "OPTIONS": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT elsewhere:22 HTTP/1.1\r\n" + HOST + b"\r\n",
    "PUT": b"PUT /metrics HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nabcd",
    "a proxy's request": b"GET http://evil.example/metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "another site's host": b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "two hosts": b"GET /metrics HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n",
}


@pytest.mark.parametrize("kind", BAD)
def test_a_request_that_is_none_of_ours_is_refused_and_learns_nothing(target: Client, kind: str) -> None:
    answer = send(target, BAD[kind])
    assert not answer.startswith((b"HTTP/1.1 2", b"HTTP/1.0 2"))
    assert b"anchorbolt_waves" not in answer
    assert b"words" not in answer
    assert b"echoed" not in answer
    assert_answers(target)


SECOND = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
SMUGGLED = {
    "two different lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SECOND),
    "a list of lengths": b"Content-Length: 0, %d\r\n\r\n" % len(SECOND),
    "a length beside chunks": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (len(SECOND) + 5),
    "an encoding that is none": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "an encoding twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a folded header": b"Content-Length:\r\n %d\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" % len(SECOND),
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a signed length": b"Content-Length: +0\r\n\r\n",
    "a space before the colon": b"Content-Length : %d\r\n\r\n" % len(SECOND),
}


@pytest.mark.parametrize("kind", SMUGGLED)
def test_a_request_whose_end_proxies_could_see_elsewhere_hides_no_second_one(target: Client, kind: str) -> None:
    answer = send(target, b"POST /login HTTP/1.1\r\n" + HOST + SMUGGLED[kind] + SECOND)
    assert answer.count(b"HTTP/1.") <= 1
    assert not answer.startswith((b"HTTP/1.1 2", b"HTTP/1.0 2"))


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_body_without_an_end_is_cut_off_and_takes_no_memory(target: Client, method: bytes) -> None:
    sent, most = 0, 64 << 20
    with socket.create_connection((target.host, target.port), timeout=5) as connection:
        connection.sendall(method + b" /login HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with suppress(OSError):
            while sent < most:
                sent += connection.send(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        assert_answers(target)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10
