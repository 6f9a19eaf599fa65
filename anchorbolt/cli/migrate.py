"""The commands `anchorbolt migrate …`: their options and their output. `migration_tools` does the work.

The commands that use Redis directly have the options of Storm's own tool, and TLS, ACL user, cluster.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anchorbolt.cli import exit_codes
from anchorbolt.cli.command import App, Json, option, print_error, print_line, with_exit_code
from anchorbolt.cli.storm_options import Enums, InTopology, KeyClass, Registered, ValueClass, storm_facts
from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret, find_password
from anchorbolt.errors import ConfigError
from anchorbolt.migration_tools import base64_to_binary as tool
from anchorbolt.migration_tools.base64_to_binary.conversion import Wrapper
from anchorbolt.storm.kryo.stored_form import Content

if TYPE_CHECKING:
    from anchorbolt.migration_tools.copy import CopyReport
    from anchorbolt.state_backends.redis.addresses import RedisAddress

_login = partial(typer.Option, show_default=False, rich_help_panel="Login and encryption")

EXIT_CODES = (
    "Exit codes: 0 everything is done, or there was nothing to do; 2 wrong usage, login or permission; 4 a namespace "
    "was refused, or the store failed: steps that are not reported as done were not done; 130 interrupted by Ctrl-C."
)

with_result = partial(
    with_exit_code,
    interrupted="interrupted: steps that are not reported as done were not done; run the command again to finish",
    failed={"done": False},
)

app = App("Move state between stores and formats.")

Namespaces = Annotated[
    list[str],
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        show_default=False,
        help="A namespace, <component>-<task>. May be repeated. Its hash NAME$prepare is converted with it; NAME$txid "
        "is not changed.",
    ),
]

SET_HELP = "Set one key of that configuration, as --set does for a run. May be repeated. Not for passwords."


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
        bool, typer.Option("--cluster", help="Use a Redis Cluster; --host is any node, the others are found.")
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
            help="The password itself, as with Storm's tool: everybody on this machine can see it. With -, the "
            "command asks for it."
        ),
    ] = None
    tls: Annotated[bool, _login("--tls", help="Encrypt the connection.")] = False
    tls_ca: Annotated[
        str | None, _login(metavar="FILE", show_default="the system's", help="Authorities to trust, PEM.")
    ] = None
    tls_cert: Annotated[str | None, _login(metavar="FILE", help="Client certificate, PEM.")] = None
    tls_key: Annotated[str | None, _login(metavar="FILE", help="Its key, PEM.")] = None
    tls_no_verify: Annotated[bool, _login("--tls-no-verify", help="Accept any certificate: for tests.")] = False

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


@app.command("base64-to-binary", epilog=EXIT_CODES)
@with_result
@with_redis_options
def base64_to_binary(
    redis: RedisOptions,
    namespace: Namespaces,
    wrapper: Annotated[
        Wrapper | None,
        typer.Option(
            show_default=Wrapper.STORM_1_2.value,
            help="storm-1.2: write the format that Storm 1.2 reads. keep: only decode the Base64. With --verify: the "
            "expected format; by default either.",
        ),
    ] = None,
    content: Annotated[
        Content | None,
        typer.Option(
            "--format", show_default="detected", help="The format of the namespaces, if it cannot be detected."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Convert nothing: compare <namespace>_old with <namespace>.")
    ] = False,
) -> int:
    """Convert state that Storm 1.0 and 1.1 wrote to Redis from Base64 to binary, as Storm 1.2 reads it.

    Stop the topology first. The old data is kept as <namespace>_old. After an interruption, run the command again.
    """
    if verify:
        return _run(redis, namespace, tool.verify, wrapper=wrapper, content=content)
    options = tool.MigrationOptions(wrapper=wrapper or Wrapper.STORM_1_2, content=content, dry_run=redis.dry_run)
    return _run(redis, namespace, tool.migrate, options=options)


@app.command(epilog=EXIT_CODES)
@with_result
@with_redis_options
def undo(
    redis: RedisOptions,
    namespace: Namespaces,
    keep_changed: Annotated[
        bool,
        typer.Option(
            "--keep-changed",
            help="Keep a namespace that has changed since as <namespace>_undone; by default it is refused.",
        ),
    ] = False,
    registered: Registered = None,
    key_class: KeyClass = None,
    value_class: ValueClass = None,
    enums: Enums = None,
    in_topology: InTopology = None,
) -> int:
    """Undo a migration or conversion: move <namespace>_old back to <namespace>. Stop the topology first.

    Give the options about classes that `convert` had.
    """
    facts = storm_facts(registered, key_class, value_class, enums, in_topology)
    return _run(redis, namespace, tool.undo, keep_changed=keep_changed, facts=facts, dry_run=redis.dry_run)


@app.command("discard-backup", epilog=EXIT_CODES)
@with_result
@with_redis_options
def discard_backup(
    redis: RedisOptions,
    namespace: Namespaces,
    registered: Registered = None,
    key_class: KeyClass = None,
    value_class: ValueClass = None,
    enums: Enums = None,
    in_topology: InTopology = None,
) -> int:
    """Remove <namespace>_old, if <namespace> is still exactly the result of the migration or conversion.

    Give the options about classes that `convert` had.
    """
    facts = storm_facts(registered, key_class, value_class, enums, in_topology)
    return _run(redis, namespace, tool.discard_backup, facts=facts, dry_run=redis.dry_run)


@app.command()
@with_exit_code
def copy(
    from_file: Annotated[
        Path | None, option("--from", metavar="FILE", help="Configuration that names the source.")
    ] = None,
    to_file: Annotated[Path | None, option("--to", metavar="FILE", help="Configuration that names the target.")] = None,
    from_overrides: Annotated[list[str] | None, option("--from-set", metavar="KEY=VALUE", help=SET_HELP)] = None,
    to_overrides: Annotated[list[str] | None, option("--to-set", metavar="KEY=VALUE", help=SET_HELP)] = None,
    topology: Annotated[str | None, option(metavar="NAME", help="Copy this topology and its decision record.")] = None,
    namespace: Annotated[str | None, option(metavar="NAME", help="Copy this one namespace.")] = None,
    take_fence: Annotated[
        bool,
        option(
            "--take-fence",
            help="Take the fence of a killed run. A run that is still alive ends with Fenced at its next wave.",
        ),
    ] = False,
    with_custom_states: Annotated[
        bool, option("--with-custom-states", help="The custom states of the topology were copied by hand.")
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", help="Check and print the planned copies; write nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Copy state from one provider to another, and compare both by count and checksum.

    The source is only read. Refused while a run holds the fence. After an interruption, run the command again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.copy import copy_namespace, copy_topology

    if (topology is None) == (namespace is None):
        raise ConfigError("give either --topology NAME or --namespace NAME")
    source, source_settings, _ = open_store(from_file, from_overrides or ())
    target, target_settings, _ = open_store(to_file, to_overrides or ())
    if namespace is not None:
        if take_fence or with_custom_states:
            raise ConfigError("--take-fence and --with-custom-states are for --topology only")
        copied = partial(copy_namespace, namespace=namespace)
    else:
        assert topology is not None
        prefix = source_settings.namespace_prefix_of(topology)
        if target_settings.namespace_prefix_of(topology) != prefix:
            raise ConfigError(
                "topology.state.namespace.prefix differs between source and target, but a copy keeps names. Set both "
                "to the same value.",
                key="topology.state.namespace.prefix",
            )
        copied = partial(
            copy_topology,
            topology=topology,
            prefix=prefix,
            take_fence=take_fence,
            with_custom_states=with_custom_states,
        )
    with shown_progress() as progress:
        report = copied(source, target, dry_run=dry_run, progress=progress)
    print_line(json.dumps(report.to_content(), indent=2) if as_json else "\n".join(_copy_lines(report)))
    return exit_codes.DONE


def base64_to_binary_alone() -> None:
    """Run `base64-to-binary` with the arguments of this process, as Storm's own tool is run, and exit."""
    alone = App(add_completion=False)
    alone.command(epilog=EXIT_CODES)(base64_to_binary)
    alone(prog_name="python -m anchorbolt.migration_tools.base64_to_binary")


def _run(redis: RedisOptions, namespaces: list[str], command: Callable[..., tool.Report], **more: Any) -> int:
    # --help and --version must not wait for these imports.
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.state_backends.redis.storm_hashes import RedisHashes

    names = [os.fsencode(name) for name in namespaces]
    run = partial(command, include_checkpoint_spout=redis.include_checkpoint_spout, **more)
    try:
        with RedisHashes(redis.address()) as hashes, shown_progress() as progress:
            report = run(hashes, names, progress=progress)
    except tool.Interrupted as left:
        show_report(left.report, as_json=redis.as_json)
        raise
    show_report(report, as_json=redis.as_json)
    return exit_codes.DONE if report.error is None else exit_codes.exit_code(report.error, running=False)


def show_report(report: tool.Report, *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(report.as_json(), indent=2))
    for warning in report.warnings:
        print_error(f"warning: {warning}")
    for namespace in report.namespaces:
        for each in namespace.hashes if not as_json else ():
            entries = "1 entry" if each.entries == 1 else f"{each.entries:,} entries"
            kept = "" if each.kept_as is None or report.dry_run else f"; {each.kept_as} is kept"
            note = f". {each.note}" if each.note else ""
            print_line(f"{each.key}: {each.action.value}, {entries}{kept}{note}")
        if namespace.error is not None:
            print_error(f"{namespace.namespace}: not done. {namespace.error}")
        elif not namespace.hashes and not as_json:
            print_line(f"{namespace.namespace}: has no entries, nothing to do")


def _copy_lines(report: CopyReport) -> list[str]:
    lines = [f"from {report.source} to {report.target}"]
    for each in report.namespaces:
        what = f"{each.namespace}: txid {each.committed}"
        if each.entries is not None:
            how = "already there" if each.was_there else "copied"
            what += f", {each.entries:,} entries, {each.size:,} bytes, checksum {each.checksum}: {how}, equal"
        lines.append(what)
    if report.is_dry_run:
        lines.append("dry run: nothing was written")
    elif report.txid is not None:
        lines.append(
            f"decision record: txid {report.txid}. Continue only with the target, and with the same checkpoint location"
        )
    return lines
