"""A real PostgreSQL of a test's own. PostgreSQL refuses to run as root: there, the server belongs to `nobody`."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.servers.server_process import HOST, OwnedProcess, Server, stop_process

USER = "anchorbolt"
DATABASE = "anchorbolt"


class PostgresServer(Server):
    """One cluster and its server process.

    It asks for a password. What it has answered survives a kill, though not the loss of power: `fsync` is off.
    """

    ready_seconds = 60.0
    stop_signal = signal.SIGINT  # cuts the open connections
    # A killed server's processes hold these for a moment longer.
    passing_errors = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists')

    def __init__(self, program: str, **options: str | int) -> None:
        # Not pytest's own directory, which only its owner can enter.
        super().__init__(Path(tempfile.mkdtemp(prefix="anchorbolt-postgres-")))
        self.user = USER
        self.database = DATABASE
        self.password = "correct-horse-battery-staple"
        self._program = program
        self._options = {"fsync": "off", "full_page_writes": "off", **options}
        self._data = self.directory / "data"
        self._owner = _owner()
        try:
            self._make_cluster()
        except BaseException:
            shutil.rmtree(self.directory)
            raise

    def kill(self, part: str | None = None) -> None:
        """Kill the server and the processes that serve its connections, all with SIGKILL."""
        children = _children(self.pid)
        super().kill(part)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def freeze(self) -> None:
        """Stop all its processes with SIGSTOP: the machine still takes connections and bytes, and nobody answers."""
        for process in (self.pid, *_children(self.pid)):
            stop_process(process)

    def thaw(self) -> None:
        for process in (*_children(self.pid), self.pid):
            os.kill(process, signal.SIGCONT)

    def become_standby(self) -> None:
        """Restart it as a standby of nobody: it takes no writes."""
        (self._data / "standby.signal").touch()
        self.restart()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    def client(self, **options: Any) -> psycopg.Connection[Any]:
        login = {"user": self.user, "password": self.password, "dbname": self.database, "connect_timeout": 10}
        return psycopg.connect(host=self.host, port=self.port, autocommit=True, **{**login, **options})

    def _make_cluster(self) -> None:
        password = self.directory / "password"
        password.touch(mode=0o600)
        password.write_text(self.password)
        if self._owner:
            for path in (self.directory, password):
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
            timeout=self.ready_seconds,
            **self._owner,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{(made.stdout + made.stderr)[-2000:]}")

    def _launch(self, part: str) -> OwnedProcess:
        settings = {"port": self.port, "listen_addresses": HOST, "unix_socket_directories": "", **self._options}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [self._program, "-D", str(self._data), *arguments]
        return OwnedProcess(command, self._log_path(part), cwd="/", **self._owner)

    def _is_ready(self) -> bool:
        with suppress(psycopg.OperationalError), self.client(dbname="postgres") as client:
            [(data,)] = client.execute("SHOW data_directory").fetchall()
            [(known,)] = client.execute(
                "SELECT count(*) FROM pg_database WHERE datname = %s", (self.database,)
            ).fetchall()
            if not known:
                client.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(DATABASE)))
            return bool(data == str(self._data))
        return False


def _owner() -> dict[str, Any]:
    """Return whom the server's processes belong to, as arguments of `subprocess`; empty for ourselves."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
