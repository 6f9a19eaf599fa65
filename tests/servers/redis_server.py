"""A real redis-server of a test's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.server_process import HOST, OwnedProcess, Server
from tests.support.certificates import Certificates

# With these, what Redis has answered survives a kill.
DURABLE: dict[str, Any] = {"appendonly": "yes", "appendfsync": "always"}

# By itself redis-py tries a refused connection again for some seconds.
AT_ONCE = Retry(NoBackoff(), 0)


@dataclass(frozen=True)
class RedisUser:
    """An ACL user: the password, and its rules in Redis's own words."""

    password: str
    rules: str = "~* &* +@all"


class RedisServer(Server):
    """One redis-server process and its directory.

    Passwords are in a configuration file that only its owner can read, never among the arguments.
    """

    def __init__(
        self,
        program: str,
        directory: Path,
        *,
        password: str | None = None,
        users: Mapping[str, RedisUser] | None = None,
        certificates: Certificates | None = None,
        **options: str | int,
    ) -> None:
        super().__init__(directory)
        self.password = password
        self.users = dict(users or {})
        self.certificates = certificates
        self._program = program
        self._options = {"save": "", "appendonly": "no", **options}
        self.data = directory / "data"
        self.data.mkdir(parents=True)

    def client(self, username: str | None = None, **options: Any) -> redis.Redis:
        if username is not None:
            options.update(username=username, password=self.users[username].password)
        elif self.password is not None:
            options.update(password=self.password)
        if self.certificates is not None:
            options.update(ssl=True, ssl_ca_certs=str(self.certificates.authority))
            options.update(ssl_certfile=str(self.certificates.client_certificate))
            options.update(ssl_keyfile=str(self.certificates.client_key))
        return redis.Redis(host=self.host, port=self.port, **options)

    def _launch(self, part: str) -> OwnedProcess:
        configuration = self.directory / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(self._configuration())
        return OwnedProcess([self._program, str(configuration)], self._log_path(part))

    def _is_ready(self) -> bool:
        with self.client(socket_timeout=5, socket_connect_timeout=5, retry=AT_ONCE) as client:
            try:
                return bool(client.info("server")["process_id"] == self.pid)
            except redis.RedisError:
                return False

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
