"""The options of commands that use Redis directly: the options of Storm's own tool, and TLS, ACL user, cluster."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from getpass import getpass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchorbolt.cli.command import print_error
from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret, find_password
from anchorbolt.errors import ConfigError

if TYPE_CHECKING:
    from anchorbolt.state_backends.redis.addresses import RedisAddress

_login = functools.partial(typer.Option, show_default=False, rich_help_panel="Login and encryption")


@dataclass(frozen=True, repr=False)  # a `repr` would show the password
class RedisOptions:
    include_checkpoint_spout: Annotated[
        bool, typer.Option("--include-checkpoint-spout", help="Also take the namespaces $checkpointspout-<task>.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything except writing.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False
    host: Annotated[str, typer.Option("--host", "-h", help="Redis host; with --cluster, any node's.")] = "localhost"
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Redis port.")] = 6379
    dbnum: Annotated[int, typer.Option("--dbnum", "-d", min=0, help="Number of the Redis database.")] = 0
    cluster: Annotated[
        bool, typer.Option("--cluster", help="It is a Redis Cluster; the other nodes are found through the one named.")
    ] = False
    timeout: Annotated[int, typer.Option(metavar="MS", min=1, help="Time to connect, and for each answer, in ms.")] = (
        10_000
    )
    username: Annotated[str | None, _login(help="ACL user.")] = None
    password_env: Annotated[str | None, _login(metavar="NAME", help="Environment variable with the password.")] = None
    password_file: Annotated[str | None, _login(metavar="FILE", help="File with the password.")] = None
    password: Annotated[
        str | None,
        _login(
            help="The password itself, as with Storm's tool: everybody on this machine can see it. With - it is asked "
            "for."
        ),
    ] = None
    tls: Annotated[bool, _login("--tls", help="Encrypt the connection.")] = False
    tls_ca: Annotated[
        str | None, _login(metavar="FILE", show_default="the system's", help="Authorities to trust, PEM.")
    ] = None
    tls_cert: Annotated[str | None, _login(metavar="FILE", help="Certificate to show, PEM.")] = None
    tls_key: Annotated[str | None, _login(metavar="FILE", help="Its key, PEM.")] = None
    tls_no_verify: Annotated[bool, _login("--tls-no-verify", help="Take any certificate: for tests.")] = False

    def address(self) -> RedisAddress:
        """Read the password, and return the address. Raises `ConfigError`."""
        # --help and --version must not wait for this import.
        from anchorbolt.state_backends.redis.addresses import RedisCluster, RedisServer

        password, tls = self._secret(), self._encryption()
        login: Any = {"username": self.username, "password": password, "timeout_ms": self.timeout, "tls": tls}
        if not self.cluster:
            return RedisServer(self.host, self.port, database=self.dbnum, **login)
        if self.dbnum:
            raise ConfigError("a Redis Cluster has no other database than 0: leave out --dbnum", key="--dbnum")
        return RedisCluster((f"{self.host}:{self.port}",), **login)

    def _secret(self) -> Secret | None:
        given = None if self.password is None else Secret(self.password)
        keys = ("--password", "--password-env", "--password-file")
        password = find_password(keys, given, self.password_env, self.password_file)
        if self.password == "-":
            try:
                asked = getpass("Redis password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
            except EOFError:
                raise ConfigError("no password was given", key="--password") from None
            return Secret(asked) if asked else None
        if self.password:
            print_error(
                "warning: a password among the arguments can be read by everybody on this machine, and stays in the "
                "shell's history: use --password-env NAME, --password-file FILE or --password -"
            )
        return password

    def _encryption(self) -> TlsSettings | None:
        if self.tls_key is not None and self.tls_cert is None:
            raise ConfigError("--tls-key is given, but not --tls-cert, which the key belongs to", key="--tls-key")
        settings = TlsSettings(ca=self.tls_ca, cert=self.tls_cert, key=self.tls_key, verify=not self.tls_no_verify)
        return settings if self.tls or settings != TlsSettings() else None


def with_redis_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command for Typer the fields of `RedisOptions` as options, instead of its first parameter."""
    options = inspect.signature(RedisOptions, eval_str=True).parameters
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def with_options(**given: Any) -> int:
        redis = RedisOptions(**{name: given.pop(name) for name in options})
        return command(redis, **given)

    # Keyword-only, so that a required option may follow an option with a default.
    parameters = [each.replace(kind=each.KEYWORD_ONLY) for each in (*own, *options.values())]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {}
    return with_options
