"""A real PostgreSQL of a test's own: on a free loopback port, with its own directory, stopped by its process id.

PostgreSQL refuses to run as root. There, the server belongs to `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.support.redis_server import HOST, free_port
from tests.support.stopping import stop_process

USER = "anchorbolt"
DATABASE = "anchorbolt"

_READY_SECONDS = 60.0
_PORT_ATTEMPTS = 5
_IN_USE = "Address already in use"
# What a killed server's processes hold for a moment longer.
_STILL_DYING = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists')


class PostgresServer:
    """One cluster and its server process; may be killed and started again on the same port and data.

    It asks for a password. What it has answered survives a kill, though not the loss of power: `fsync` is off.

    Attributes:
        host: the loopback address.
        port: the port, the same for the server's whole life, restarts included.
        user: the superuser.
        password: its password.
        database: the database for the tests.
    """

    def __init__(self, program: str, *, options: Mapping[str, str | int] | None = None) -> None:
        """Make a cluster.

        Args:
            program: the path of `postgres`; `initdb` lies beside it.
            options: PostgreSQL's settings.
        """
        self.host = HOST
        self.port = 0
        self.user = USER
        self.database = DATABASE
        self.password = "correct-horse-battery-staple"
        self._program = program
        self._options = {"fsync": "off", "full_page_writes": "off", **(options or {})}
        self._process: subprocess.Popen[bytes] | None = None
        # Not pytest's own directory, which only its owner can enter.
        self._directory = Path(tempfile.mkdtemp(prefix="anchorbolt-postgres-"))
        self._data = self._directory / "data"
        self._log_path = self._directory / "log"
        self._owner = _owner()
        try:
            self._make_cluster()
        except BaseException:
            shutil.rmtree(self._directory)
            raise

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        """Everything the server has logged."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> None:
        """Start the server, and return when it answers; what a killed one left is recovered by then."""
        assert self._process is None, "the server is running"
        deadline = time.monotonic() + _READY_SECONDS
        first = self.port == 0
        attempts = 0
        while True:
            if first:
                self.port = free_port()
            log_before = len(self.log)
            self._launch()
            if self._wait_until_ready(deadline):
                return
            said = self.log[log_before:]
            attempts += 1
            again = (_IN_USE in said and attempts < _PORT_ATTEMPTS) or any(s in said for s in _STILL_DYING)
            if not again or time.monotonic() > deadline:
                raise RuntimeError(f"{self._program} did not start:\n{said[-2000:]}")

    def kill(self) -> None:
        """Kill the server and the processes that serve its connections, all with SIGKILL."""
        children = _children(self.pid)
        self._end(signal.SIGKILL)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all its processes with SIGSTOP: the machine still takes connections and bytes, and nobody answers."""
        for process in (self.pid, *_children(self.pid)):
            stop_process(process)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        for process in (*_children(self.pid), self.pid):
            os.kill(process, signal.SIGCONT)

    def become_standby(self) -> None:
        """Restart it as a standby of nobody: it takes no writes."""
        (self._data / "standby.signal").touch()
        self.restart()

    def stop(self) -> None:
        """Let the server end by itself, if it runs; open connections are cut."""
        if self._process is not None:
            self._end(signal.SIGINT)

    def restart(self) -> None:
        """Start the server again on its port and its data; one that still runs is stopped first."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self._directory)

    def client(self, **options: Any) -> psycopg.Connection[Any]:
        """Return a connection of the superuser; the caller closes it."""
        login = {"user": self.user, "password": self.password, "dbname": self.database, "connect_timeout": 10}
        return psycopg.connect(host=self.host, port=self.port, autocommit=True, **{**login, **options})

    def _make_cluster(self) -> None:
        password = self._directory / "password"
        password.touch(mode=0o600)
        password.write_text(self.password)
        if self._owner:
            for path in (self._directory, password):
                os.chown(path, self._owner["user"], self._owner["group"])
        made = subprocess.run(
            [
                *(str(Path(self._program).with_name("initdb")), "--pgdata", str(self._data), "--no-sync"),
                *("--username", self.user, "--pwfile", str(password), "--auth", "scram-sha-256"),
                *("--no-locale", "--encoding", "UTF8"),
            ],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_READY_SECONDS,
            **self._owner,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{(made.stdout + made.stderr)[-2000:]}")

    def _launch(self) -> None:
        settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            **self._options,
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(
                [self._program, "-D", str(self._data), *arguments],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._owner,
            )

    def _wait_until_ready(self, deadline: float) -> bool:
        """Return True when this very process answers, False when it has ended by itself."""
        assert self._process is not None
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._process = None
                return False
            with suppress(psycopg.OperationalError):
                # Another server may have been faster to take the port; it would not know our database's directory.
                with self.client(dbname="postgres") as client:
                    [(data,)] = client.execute("SHOW data_directory").fetchall()
                    [(known,)] = client.execute(
                        "SELECT count(*) FROM pg_database WHERE datname = %s", (self.database,)
                    ).fetchall()
                    if not known:
                        client.execute(
                            psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(DATABASE))
                        )
                if data == str(self._data):
                    return True
            time.sleep(0.02)
        log = self.log[-2000:]
        self._end(signal.SIGKILL)
        raise RuntimeError(f"{self._program} did not answer within {_READY_SECONDS:.0f} s:\n{log}")

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        # A stopped process (SIGSTOP) would not act on SIGINT before it goes on.
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=_READY_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _owner() -> dict[str, Any]:
    """Return whom the server's processes belong to, as arguments of `subprocess`; empty for ourselves."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _children(pid: int) -> list[int]:
    """Return a process's children; none where the machine has no /proc, and they end by themselves soon after it."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
