"""What the examples' tests share: the demo's modules, and a run of the demo whose processes can all be found again."""

import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import anchorbolt
from anchorbolt.config.secret import Secret
from tests.support.postgres_server import PostgresServer

ROOT = Path(anchorbolt.__file__).resolve().parent.parent
PostgresProviderOf = Callable[..., Any]

EXAMPLES = ROOT / "examples"
WORD_COUNT = EXAMPLES / "word_count"


class DemoProcess:
    """The demo, started on a shortened text; it and all that it starts can be told by a mark in the environment."""

    def __init__(self, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        # Not pytest's own directory: the path of a Unix socket below it would be too long.
        self.directory = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(WORD_COUNT / "demo.py"), "--verses", "2000", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TMPDIR": self.directory.name,
                "ANCHORBOLT_TEST_MARK": self.mark,
            },
        )

    def output(self) -> Iterator[str]:
        """Return what it prints, line by line, until it has ended; a caller may stop listening before."""
        assert self.process.stdout is not None
        return self.process.stdout  # a generator would close it when the caller stops

    def left_over(self) -> list[str]:
        """Return the command lines of those processes of the demo that are alive."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                # A process that has ended, and that nobody has waited for yet, has an empty environment.
                if folder.name.isdigit() and self.mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found


@pytest.fixture
def start_demo() -> Iterator[Callable[..., DemoProcess]]:
    """Start the demo: `start_demo("--provider", "redis")`; one that still runs after the test is ended."""
    started: list[DemoProcess] = []

    def start(*arguments: str) -> DemoProcess:
        started.append(DemoProcess(*arguments))
        return started[-1]

    yield start
    for demo in started:
        demo.process.terminate()
        demo.process.communicate(timeout=120)
        demo.directory.cleanup()


@pytest.fixture
def demo_part(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a module of `crash_demo`, as `demo.py` does; forgotten after the test."""
    monkeypatch.syspath_prepend(str(WORD_COUNT))
    yield lambda name: import_module(f"crash_demo.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "crash_demo"]:
        del sys.modules[name]


@pytest.fixture
def postgres_provider_of(monkeypatch: pytest.MonkeyPatch) -> PostgresProviderOf:
    """Make a provider of the example for a server: `postgres_provider_of(server, **arguments)`."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    kind = import_module("postgres_provider").PostgresStateProvider

    def make(server: PostgresServer, **arguments: Any) -> Any:
        login = {"host": server.host, "port": server.port, "password": Secret(server.password)}
        return kind(**{**login, **arguments})

    return make


@pytest.fixture
def postgres_provider(postgres_provider_of: PostgresProviderOf, postgres_server: PostgresServer) -> Any:
    """A provider on the session's PostgreSQL."""
    return postgres_provider_of(postgres_server)
