"""A real redis-server of a test's own: on a free loopback port, with its own directory, stopped by its process id."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.certificates import Certificates
from tests.support.stopping import stop_process

HOST = "127.0.0.1"

# With these, what Redis has answered survives a kill.
DURABLE = {"appendonly": "yes", "appendfsync": "always"}

# By itself redis-py tries a refused connection again for some seconds.
AT_ONCE = Retry(NoBackoff(), 0)

_READY_SECONDS = 30.0
_LOWEST_PORT, _PORTS = 12_000, 10_000
_PORT_ATTEMPTS = 5
_IN_USE = "Address already in use"


@dataclass(frozen=True)
class RedisUser:
    """An ACL user: the password, and its rules in Redis's own words."""

    password: str
    rules: str = "~* &* +@all"


class RedisServer:
    """One redis-server process and its directory; may be killed and started again on the same port and data.

    Passwords stand in a configuration file that only its owner can read, never among the arguments.

    Attributes:
        host: the loopback address.
        port: the port, the same for the server's whole life, restarts included.
        directory: holds the configuration and the log.
        data: the directory with what Redis persists.
        password: that of the default user, or None.
        users: the ACL users by name.
        certificates: what to connect with by TLS, or None for a plain connection.
    """

    def __init__(
        self,
        program: str,
        directory: Path,
        *,
        password: str | None = None,
        users: Mapping[str, RedisUser] | None = None,
        certificates: Certificates | None = None,
        options: Mapping[str, str | int] | None = None,
    ) -> None:
        self.host = HOST
        self.port = 0
        self.directory = directory
        self.password = password
        self.users = dict(users or {})
        self.certificates = certificates
        self._program = program
        self._options = {"save": "", "appendonly": "no", **(options or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._log_path = directory / "redis.log"
        self.data = directory / "data"
        self.data.mkdir(parents=True)

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    @property
    def log(self) -> str:
        """Everything the server has logged."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def start(self) -> None:
        """Start the server, and return when it answers; what it has persisted is loaded by then."""
        assert self._process is None, "the server is running"
        deadline = time.monotonic() + _READY_SECONDS
        first = self.port == 0
        for attempt in range(_PORT_ATTEMPTS):
            if first:
                self.port = free_port()
            log_before = len(self.log)
            self._launch()
            if self._wait_until_ready(deadline):
                return
            said = self.log[log_before:]
            if _IN_USE not in said or attempt == _PORT_ATTEMPTS - 1:
                raise RuntimeError(f"{self._program} did not start:\n{said[-2000:]}")

    def pause(self) -> None:
        """Stop the server by SIGSTOP: it keeps its connections and answers nothing."""
        stop_process(self.pid)

    def resume(self) -> None:
        """Let a paused server go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Let the server end by itself, if it runs."""
        if self._process is not None:
            self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Start the server again on its port and its data; one that still runs is stopped first."""
        self.stop()
        self.start()

    def client(self, username: str | None = None, **options: Any) -> redis.Redis:
        """Return a client of the default user or of an ACL user; the caller closes it."""
        if username is not None:
            options.update(username=username, password=self.users[username].password)
        elif self.password is not None:
            options.update(password=self.password)
        if self.certificates is not None:
            options.update(ssl=True, ssl_ca_certs=str(self.certificates.authority))
            options.update(ssl_certfile=str(self.certificates.client_certificate))
            options.update(ssl_keyfile=str(self.certificates.client_key))
        return redis.Redis(host=self.host, port=self.port, **options)

    def _launch(self) -> None:
        configuration = self.directory / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(self._configuration())
        with open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(
                [self._program, str(configuration)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _configuration(self) -> str:
        settings: dict[str, str | int] = {"bind": HOST, "dir": str(self.data), "daemonize": "no"}
        if self.certificates is None:
            settings["port"] = self.port
        else:
            settings.update({"port": 0, "tls-port": self.port, "tls-auth-clients": "no"})
            settings["tls-ca-cert-file"] = str(self.certificates.authority)
            settings["tls-cert-file"] = str(self.certificates.server_certificate)
            settings["tls-key-file"] = str(self.certificates.server_key)
        if self.password is not None:
            settings["requirepass"] = self.password
        settings.update({name.replace("_", "-"): value for name, value in self._options.items()})
        lines = [f'{name} "{value}"' for name, value in settings.items()]
        lines += [f"user {name} on >{user.password} {user.rules}" for name, user in self.users.items()]
        return "\n".join(lines) + "\n"

    def _wait_until_ready(self, deadline: float) -> bool:
        """Return True when this very process answers, False when it has ended by itself."""
        assert self._process is not None
        with self.client(socket_timeout=5, socket_connect_timeout=5, retry=AT_ONCE) as client:
            while time.monotonic() < deadline:
                if self._process.poll() is not None:
                    self._process = None
                    return False
                try:
                    # Another server may have been faster to take the port.
                    if client.info("server")["process_id"] == self._process.pid:
                        return True
                except redis.RedisError:
                    pass
                time.sleep(0.01)
        log = self.log[-2000:]
        self._end(signal.SIGKILL)
        raise RuntimeError(f"{self._program} did not answer within {_READY_SECONDS:.0f} s:\n{log}")

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server is not running"
        # A stopped process (SIGSTOP) would not act on SIGTERM before it goes on.
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.send_signal(number)
        try:
            self._process.wait(timeout=_READY_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def free_port() -> int:
    """Return a loopback port that is free now; somebody else may still take it.

    Linux gives those from 32,768 on to connections, which would sooner or later have that of a server that is down, or
    of a Redis Cluster's bus, 10,000 above its server's.
    """
    while True:
        port = _LOWEST_PORT + secrets.randbelow(_PORTS)
        with socket.socket() as listener, suppress(OSError):
            listener.bind((HOST, port))
            return port
