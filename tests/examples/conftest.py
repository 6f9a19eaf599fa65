"""What the examples' tests share: the demo's modules, and a run of the demo whose processes can all be found again."""

import importlib.util
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config import Secret
from tests.cli.command import ROOT, Command
from tests.servers.postgres_server import PostgresServer

PostgresProviderOf = Callable[..., Any]
LoadJob = Callable[[str], Any]

EXAMPLES = ROOT / "examples"
WORD_COUNT = EXAMPLES / "word_count"


class DemoProcess(Command):
    """The demo, started on a shortened text; it and all that it starts can be told by a mark in the environment."""

    def __init__(self, *arguments: str, directory: str) -> None:
        self._mark = uuid.uuid4().hex
        super().__init__(
            [sys.executable, "-u", str(WORD_COUNT / "demo.py"), "--verses", "2000", *arguments],
            directory=Path(directory),
            env={"TMPDIR": directory, "ANCHORBOLT_TEST_MARK": self._mark},
        )

    def left_over(self) -> list[str]:
        """Return the command lines of those processes of the demo that are alive."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                # A process that has ended, and that nobody has waited for yet, has an empty environment.
                if folder.name.isdigit() and self._mark.encode() in (folder / "environ").read_bytes():
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found


@pytest.fixture
def start_demo() -> Iterator[Callable[..., DemoProcess]]:
    """Start the demo: `start_demo("--provider", "redis")`; one that still runs after the test is ended."""
    # Not pytest's own directory: the path of a Unix socket below it would be too long.
    with ExitStack() as stack:

        def start(*arguments: str) -> DemoProcess:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            demo = stack.enter_context(closing(DemoProcess(*arguments, directory=directory)))
            stack.callback(demo.end)
            stack.callback(demo.send, signal.SIGTERM)
            return demo

        yield start


@pytest.fixture
def demo_part(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of `crash_demo`, as `demo.py` does."""
    monkeypatch.syspath_prepend(str(WORD_COUNT))
    return lambda name: import_module(f"crash_demo.{name}")


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


@pytest.fixture
def load_job(monkeypatch: pytest.MonkeyPatch) -> LoadJob:
    """Import the `job.py` of an example, under a name of its own."""

    def load(example: str) -> Any:
        name = f"{example}_job"
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / example / "job.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load
