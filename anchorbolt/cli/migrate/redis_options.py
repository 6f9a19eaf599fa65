"""The options by which a command finds a Redis and logs in: Storm's own, and beside them TLS, ACL users, clusters."""

from __future__ import annotations

import functools
import getpass
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError

if TYPE_CHECKING:
    from anchorbolt.state_backends.redis.addresses import RedisAddress

_Command = Callable[..., None]
_LOGIN = "Login and encryption"

_Host = Annotated[str, typer.Option("--host", "-h", help="Redis host; with --cluster, any node's.")]
_Port = Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Redis port.")]
_Database = Annotated[int, typer.Option("--dbnum", "-d", min=0, help="Number of the Redis database.")]
_Cluster = Annotated[
    bool, typer.Option("--cluster", help="It is a Redis Cluster; the other nodes are found through the one named.")
]
_Timeout = Annotated[
    int, typer.Option("--timeout", metavar="MS", min=1, help="Time to connect, and for each answer, in ms.")
]
_Username = Annotated[
    str | None, typer.Option("--username", show_default=False, help="ACL user.", rich_help_panel=_LOGIN)
]
_PasswordEnv = Annotated[
    str | None,
    typer.Option(
        "--password-env",
        metavar="NAME",
        show_default=False,
        help="Environment variable with the password.",
        rich_help_panel=_LOGIN,
    ),
]
_PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file", metavar="FILE", show_default=False, help="File with the password.", rich_help_panel=_LOGIN
    ),
]
_Password = Annotated[
    str | None,
    typer.Option(
        "--password",
        show_default=False,
        help="The password itself, as with Storm's tool: everybody on this machine can see it. With - it is asked for.",
        rich_help_panel=_LOGIN,
    ),
]
_Tls = Annotated[bool, typer.Option("--tls", help="Encrypt the connection.", rich_help_panel=_LOGIN)]
_CaFile = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        show_default="the system's",
        help="Authorities to trust, PEM.",
        rich_help_panel=_LOGIN,
    ),
]
_CertFile = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert", metavar="FILE", show_default=False, help="Certificate to show, PEM.", rich_help_panel=_LOGIN
    ),
]
_KeyFile = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", show_default=False, help="Its key, PEM.", rich_help_panel=_LOGIN),
]
_NoVerify = Annotated[
    bool, typer.Option("--tls-no-verify", help="Take any certificate: for tests.", rich_help_panel=_LOGIN)
]


@dataclass(frozen=True)
class RedisOptions:
    """The address and warnings that the options result in.

    Attributes:
        address: Where they lead.
        warnings: What the user should know about them, as sentences.
    """

    address: RedisAddress
    warnings: tuple[str, ...] = ()


def with_redis_options(command: _Command) -> _Command:
    """Give a command for Typer these options in the place of its first parameter, which gets how to read them.

    That is a function without arguments, which returns `RedisOptions` or raises `ConfigError`.
    """
    options = inspect.signature(_read, eval_str=True).parameters
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        login = {name: given.pop(name) for name in options}
        command(lambda: _read(**login), **given)

    required = [each for each in own if each.default is each.empty]
    others = [each for each in own if each.default is not each.empty]
    parameters = [*required, *others, *options.values()]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {}
    return with_options


def _read(
    host: _Host = "localhost",
    port: _Port = 6379,
    dbnum: _Database = 0,
    cluster: _Cluster = False,
    timeout: _Timeout = 10_000,
    username: _Username = None,
    password_env: _PasswordEnv = None,
    password_file: _PasswordFile = None,
    password: _Password = None,
    tls: _Tls = False,
    tls_ca: _CaFile = None,
    tls_cert: _CertFile = None,
    tls_key: _KeyFile = None,
    tls_no_verify: _NoVerify = False,
) -> RedisOptions:
    # Here and below, not at the top: --help and --version do not wait for what only a command needs.
    from anchorbolt.state_backends.redis.addresses import RedisCluster, RedisServer

    encryption = _tls(tls, tls_ca, tls_cert, tls_key, tls_no_verify)
    secret = _password(password, password_env, password_file)
    warnings = () if password in (None, "", "-") else (_SEEN,)
    if not cluster:
        return RedisOptions(RedisServer(username, secret, timeout, encryption, host, port, dbnum), warnings)
    if dbnum:
        raise ConfigError("a Redis Cluster has no other database than 0: leave out --dbnum", key="--dbnum")
    nodes = ((host, port),)
    return RedisOptions(RedisCluster(username, secret, timeout, encryption, nodes, _REDIRECTIONS), warnings)


_REDIRECTIONS = 5
_SEEN = (
    "a password among the arguments can be read by everybody on this machine, and stays in the shell's history: use "
    "--password-env NAME, --password-file FILE or --password -"
)


def _password(password: str | None, env: str | None, file: Path | None) -> Secret | None:
    from anchorbolt.config.passwords import password_in_file, password_in_variable

    ways = {"--password": password, "--password-env": env, "--password-file": file}
    used = [name for name, value in ways.items() if value is not None]
    if len(used) > 1:
        raise ConfigError(f"{' and '.join(used)} are given: use one of them", key=used[1])
    if env is not None:
        return password_in_variable("--password-env", env)
    if file is not None:
        return password_in_file("--password-file", str(file))
    if password == "-":
        password = _asked_for() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    return Secret(password) if password else None


def _asked_for() -> str:
    try:
        return getpass.getpass("Redis password: ")
    except EOFError:
        raise ConfigError("no password was given", key="--password") from None


def _tls(wanted: bool, ca: Path | None, cert: Path | None, key: Path | None, no_verify: bool) -> TlsSettings | None:
    if key is not None and cert is None:
        raise ConfigError("--tls-key is given, but not --tls-cert, which the key belongs to", key="--tls-key")
    if not (wanted or ca or cert or no_verify):
        return None
    files = [None if file is None else str(file) for file in (ca, cert, key)]
    return TlsSettings(ca=files[0], cert=files[1], key=files[2], verify=not no_verify)
