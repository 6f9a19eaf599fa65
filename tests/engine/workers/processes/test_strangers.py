"""Connections of processes that are not of the run: they are refused, and the run goes on. Its secret stays secret."""

from __future__ import annotations

import base64
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from anchorbolt.engine.workers.frames import HEAD
from anchorbolt.engine.workers.links import Address, Secret, connect
from anchorbolt.serialization import pack
from tests.cli.command import wait_until
from tests.engine.workers.processes.jobs import FedSpout, Marks, counting, counts_of, word_of
from tests.engine.workers.processes.runs import StartedRun, started

pytestmark = pytest.mark.slow

BATCH = 200


class Watched:
    """A run with two workers, and all that its processes log."""

    def __init__(self, run: StartedRun, spout: FedSpout, logged: pytest.LogCaptureFixture) -> None:
        self.run, self._spout, self._logged, self._fed = run, spout, logged, 0

    @property
    def ports(self) -> list[int]:
        """The ports of the driver and of all workers."""
        members = self.run.fleet.roster.table.members.values()
        return [self.run.fleet.address.port, *(member.port for member in members)]

    def log(self) -> str:
        return self._logged.text + self.run.hosts.logs()

    def goes_on(self) -> None:
        """Run one more wave."""
        waves = self.run.waves()
        self._spout.feed(self._fed, [word_of(number) for number in range(self._fed, self._fed + BATCH)])
        self._fed += BATCH
        self.run.wait_for_waves(1, waves)

    def finish(self, workers: list[int]) -> None:
        """End the run, in which no wave may have failed, and whose workers must be these."""
        self.goes_on()
        assert self.run.wait_for_workers() == workers
        assert self.run.runner.failed == []
        wait_until(lambda: sum(self.run.handle.state("count").values()) >= self._fed, "all counts", 60)
        self.run.stop()
        assert self.run.handle.state("count") == counts_of(self._fed)


@pytest.fixture
def watched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Watched]:
    caplog.set_level(logging.DEBUG)
    spout = FedSpout(str(tmp_path))
    with started(counting(spout, Marks(tmp_path)), tmp_path, until_empty=False) as run:
        watched = Watched(run, spout, caplog)
        run.wait_for_workers()
        watched.goes_on()
        yield watched


def answered(connection: socket.socket) -> bytes:
    """Return all that a connection sends until it is ended."""
    found = b""
    connection.settimeout(30)
    try:
        while data := connection.recv(1 << 16):
            found += data
    except ConnectionError:
        pass
    return found


def test_a_process_with_another_secret_is_refused_everywhere(watched: Watched) -> None:
    before = watched.run.wait_for_workers()
    for port in watched.ports:
        with pytest.raises(OSError):  # noqa: PT011 - refused, or ended first
            connect(Address("127.0.0.1", port, Secret(os.urandom(32))), lambda _: pack([0, 99, "127.0.0.1", 1, "x", 1]))
    wait_until(lambda: watched.log().count("does not know the secret") >= 3, "the warnings", 30)
    watched.finish(before)


def test_garbage_and_frames_that_are_too_long_are_refused_everywhere(watched: Watched) -> None:
    before = watched.run.wait_for_workers()
    for port in watched.ports:
        for data in (b"GET / HTTP/1.1\r\n\r\n" * 10, HEAD.pack(0xFFFFFFFF, 0, 0, 0, 0) * 10, os.urandom(1 << 16)):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as stranger:
                try:
                    stranger.sendall(data)
                except ConnectionError:
                    continue
                assert len(answered(stranger)) <= 32  # a nonce, and nothing else
    wait_until(lambda: watched.log().count("was refused") >= 9, "the warnings", 30)
    watched.finish(before)


def test_a_hello_that_is_too_long_is_refused_although_the_secret_is_known(watched: Watched) -> None:
    before = watched.run.wait_for_workers()
    secret = watched.run.fleet.address.secret
    for port in watched.ports:
        with connect(Address("127.0.0.1", port, secret), lambda _: b"x" * (1 << 17)) as connection:
            assert answered(connection) == b""
    wait_until(lambda: watched.log().count("in place of its hello") >= 3, "the warnings", 30)
    watched.finish(before)


@pytest.mark.thorough
def test_hundreds_of_silent_connections_keep_nobody_out(watched: Watched) -> None:
    before = watched.run.wait_for_workers()
    with ExitStack() as stack:
        for port in watched.ports:
            for _ in range(600 if port == watched.ports[0] else 200):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        watched.goes_on()
        assert watched.run.wait_for_workers() == before
        watched.run.hosts.kill(0)  # its replacement must get in
        wait_until(lambda: watched.run.wait_for_workers()[0] != before[0], "the replacement", 120)
        watched.goes_on()
    assert watched.run.wait_for_workers()[1] == before[1]
    watched.finish(watched.run.wait_for_workers())


def test_the_secret_is_in_no_log_argument_or_environment(watched: Watched) -> None:
    key = watched.run.fleet.address.secret.key
    forms = [key, key.hex().encode(), base64.b64encode(key).rstrip(b"="), base64.urlsafe_b64encode(key).rstrip(b"=")]
    forms += [repr(key).encode(), key[:16]]
    seen = [repr(watched.run.fleet.address).encode(), repr(watched.run.hosts.started).encode()]
    before = watched.run.wait_for_workers()
    for pid in before:
        seen += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    watched.run.hosts.kill(0)
    wait_until(lambda: watched.run.wait_for_workers()[0] != before[0], "the replacement", 120)
    watched.goes_on()
    watched.run.stop()
    seen.append(watched.log().encode())
    assert b"worker 0 is process" in seen[-1]
    for form in forms:
        assert not any(form in each for each in seen)
