"""What befalls the store of a run: harm as a context, whose end undoes it; and how a run takes it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.command import Command, wait_until
from tests.crash.runs import AccompaniedRun
from tests.servers.redis_server import RedisServer
from tests.servers.server_process import free_port

MAXMEMORY = "maxmemory"
READ_ONLY = "read-only replica"


@contextmanager
def killed(server: RedisServer) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextmanager
def full_memory(server: RedisServer) -> Iterator[None]:
    """A Redis at its `maxmemory`."""
    with server.client() as client:
        client.config_set("maxmemory", "1")
        yield
        client.config_set("maxmemory", "0")


@contextmanager
def read_only(server: RedisServer) -> Iterator[None]:
    """A Redis that was made a replica of another one, which nobody can reach."""
    with server.client() as client:
        client.replicaof("127.0.0.1", str(free_port()))
        yield
        client.replicaof("NO", "ONE")


@contextmanager
def full_disk(directory: Path) -> Iterator[None]:
    """A small file system without any room left."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    yield
    filler.unlink()


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


def assert_waited_for(run: AccompaniedRun, harms: Sequence[AbstractContextManager[None]]) -> Command:
    """Do one harm at each fault of a run, until the run reports it; the run ends with the whole input's effect."""
    driver = run.start()
    for number, harm in enumerate(harms):
        run.wait_for_fault(number)
        with harm:
            let_go_and_wait(run, driver, number)
    run.assert_done(driver)
    return driver


def assert_refused(run: AccompaniedRun, driver: Command, contents: Callable[[], Any]) -> None:
    """Let a run continue whose store lost data: it halts, as does the next start, and neither writes anything."""
    before = contents()
    run.faults.release(1)
    for each in (driver, None):
        ended = each or run.start(faulty=False)
        assert ended.end() == STATE_REFUSED, repr(ended)
        assert contents() == before
