"""What befalls the store of a run: harm that a test does to it, undoes again, and looks for in it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.cli.command import Command, wait_until
from tests.crash.runs import AccompaniedRun
from tests.support.redis_server import RedisServer
from tests.support.server_process import free_port


class Harm(Protocol):
    """Something that keeps a store from taking writes, for a time."""

    says: str

    def do(self) -> None:
        """From now on the store refuses writes."""

    def undo(self) -> None:
        """It takes them again."""


class FullMemory:
    """A Redis at its `maxmemory`."""

    says = "maxmemory"

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def do(self) -> None:
        self._set("1")

    def undo(self) -> None:
        self._set("0")

    def _set(self, size: str) -> None:
        with self._server.client() as client:
            client.config_set("maxmemory", size)


class ReadOnlyReplica:
    """A Redis that was made a replica of another one, which nobody can reach."""

    says = "read-only replica"

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    def do(self) -> None:
        with self._server.client() as client:
            client.replicaof("127.0.0.1", str(free_port()))

    def undo(self) -> None:
        with self._server.client() as client:
            client.replicaof("NO", "ONE")


class FullDisk:
    """A small file system without any room left."""

    says = "full"

    def __init__(self, directory: Path) -> None:
        self._filler = directory / "filler"

    def do(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def undo(self) -> None:
        self._filler.unlink()


def contents_of(*servers: RedisServer) -> dict[bytes, dict[bytes, bytes]]:
    """Return everything in some Redis servers, all of which are hashes, except for how far the fences were raised.

    A round that meets a server while it is down is rolled back under the next fence, before anybody can look into it.
    """
    contents: dict[bytes, dict[bytes, bytes]] = {}
    for server in servers:
        with server.client() as client:
            contents |= {key: client.hgetall(key) for key in client.scan_iter()}
    for key, fields in contents.items():
        if key.endswith(b"$fence"):
            fields.pop(b"seq", None)
    return contents


def let_go_and_wait(run: AccompaniedRun, driver: Command, number: int) -> None:
    """Let the run continue from a fault, and wait until it reports that the store fails."""
    said = driver.err.count("waiting for the state store")
    run.faults.release(number)
    wait_until(
        lambda: driver.err.count("waiting for the state store") > said or driver.has_ended,
        f"trouble noticed by {driver!r}",
    )


@contextmanager
def data_put_back(server: RedisServer, copy: Path | None) -> Iterator[None]:
    """Kill a Redis; afterwards start it on a copy of its data, or on none."""
    server.kill()
    yield
    shutil.rmtree(server.data)
    if copy is None:
        server.data.mkdir()
    else:
        shutil.copytree(copy, server.data)
    server.start()
