"""`anchorbolt migrate base64-to-binary`, `undo` and `discard-backup`: their arguments, and what is shown.

What is done is in `migration_tools.base64_to_binary`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli import exit_codes
from anchorbolt.cli.migrate.redis_options import RedisOptions, with_redis_options
from anchorbolt.errors import AnchorboltError
from anchorbolt.migration_tools import base64_to_binary as tool
from anchorbolt.migration_tools.base64_to_binary.conversion import Wrapper
from anchorbolt.storm.kryo.stored_form import Content

if TYPE_CHECKING:
    from anchorbolt.migration_tools.progress import Progress
    from anchorbolt.state_backends.redis.hashes import RedisHashes

EXIT_CODES = (
    "Exit codes: 0 all was done, or there was nothing to do; 2 wrong usage, login or permission; 4 a namespace was "
    "refused, or Redis failed: what is not reported as done has not been done; 130 left by Ctrl-C."
)
_DO_NOT_WRITE = "Do everything but write."

ReadOptions = Callable[[], RedisOptions]
Namespaces = Annotated[
    list[str],
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        show_default=False,
        help="A namespace, <component>-<task>. May be repeated. $prepare belongs to it, $txid stays as it is.",
    ),
]
CheckpointSpout = Annotated[
    bool,
    typer.Option("--include-checkpoint-spout", help="Take the namespaces $checkpointspout-<task>, too."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help=_DO_NOT_WRITE)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@with_redis_options
def base64_to_binary(
    redis: ReadOptions,
    namespace: Namespaces,
    wrapper: Annotated[
        Wrapper | None,
        typer.Option(
            show_default=Wrapper.STORM_1_2.value,
            help="storm-1.2: make what Storm 1.2 reads. keep: take off the Base64 and no more. With --verify: what has "
            "to be there; by default either.",
        ),
    ] = None,
    content: Annotated[
        Content | None,
        typer.Option(
            "--format",
            show_default="find out",
            help="What the namespaces hold, where that cannot be found out.",
        ),
    ] = None,
    include_checkpoint_spout: CheckpointSpout = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Convert nothing: compare <namespace>_old with <namespace>.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Convert state that Storm 1.0 and 1.1 wrote to Redis from Base64 to binary, as Storm 1.2 reads it.

    Stop the topology first. What was there is kept as <namespace>_old; run it again after anything that stopped it.
    """

    def run(hashes: RedisHashes, progress: Progress) -> tool.Report:
        names = [os.fsencode(name) for name in namespace]
        if verify:
            return tool.verify(
                hashes,
                names,
                include_checkpoint_spout=include_checkpoint_spout,
                wrapper=wrapper,
                content=content,
                progress=progress,
            )
        how = tool.MigrationOptions(wrapper=wrapper or Wrapper.STORM_1_2, content=content, dry_run=dry_run)
        return tool.migrate(
            hashes, names, how, include_checkpoint_spout=include_checkpoint_spout, progress=progress
        )

    _run(redis, run, as_json=as_json)


@with_redis_options
def undo(
    redis: ReadOptions,
    namespace: Namespaces,
    keep_changed: Annotated[
        bool,
        typer.Option(
            "--keep-changed",
            help="Where a namespace has changed since, keep it as <namespace>_undone; otherwise that is refused.",
        ),
    ] = False,
    include_checkpoint_spout: CheckpointSpout = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put <namespace>_old back as <namespace>, which a migration made of it. Stop the topology first."""

    def run(hashes: RedisHashes, progress: Progress) -> tool.Report:
        return tool.undo(
            hashes,
            [os.fsencode(name) for name in namespace],
            include_checkpoint_spout=include_checkpoint_spout,
            keep_changed=keep_changed,
            dry_run=dry_run,
            progress=progress,
        )

    _run(redis, run, as_json=as_json)


@with_redis_options
def discard_backup(
    redis: ReadOptions,
    namespace: Namespaces,
    include_checkpoint_spout: CheckpointSpout = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove <namespace>_old, if <namespace> is still exactly what it was converted to."""

    def run(hashes: RedisHashes, progress: Progress) -> tool.Report:
        return tool.discard_backup(
            hashes,
            [os.fsencode(name) for name in namespace],
            include_checkpoint_spout=include_checkpoint_spout,
            dry_run=dry_run,
            progress=progress,
        )

    _run(redis, run, as_json=as_json)


def base64_to_binary_alone() -> None:
    """Run `base64-to-binary` with the arguments of this process, as Storm's own tool is run, and exit."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(epilog=EXIT_CODES)(base64_to_binary)
    alone(prog_name="python -m anchorbolt.migration_tools.base64_to_binary")


def _run(
    redis: ReadOptions,
    command: Callable[[RedisHashes, Progress], tool.Report],
    *,
    as_json: bool,
) -> None:
    """Run a command, show its report, and exit with its code."""
    # Not at the top, so that --help and --version do not wait for it.
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.state_backends.redis.hashes import RedisHashes

    try:
        options = redis()
        for warning in options.warnings:
            _warn(warning)
        with RedisHashes(options.address) as hashes, shown_progress() as progress:
            report = command(hashes, progress)
    except KeyboardInterrupt as left:
        if isinstance(left, tool.Interrupted):
            _show(left.report, as_json=as_json)
        _complain("left: what was not reported as done has not been done; run it again to finish")
        raise typer.Exit(exit_codes.LEFT_AT_ONCE) from None
    except Exception as error:
        if not isinstance(error, AnchorboltError):
            traceback.print_exception(error)
        if as_json:
            typer.echo(json.dumps({"done": False, "error": str(error)}, indent=2))
        _complain(str(error))
        raise typer.Exit(exit_codes.exit_code(error, running=False)) from None
    _show(report, as_json=as_json)
    raise typer.Exit(
        exit_codes.DONE if report.error is None else exit_codes.exit_code(report.error, running=False)
    )


def _show(report: tool.Report, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=2))
    for warning in report.warnings:
        _warn(warning)
    for namespace in report.namespaces:
        for each in namespace.hashes:
            kept = "" if each.kept_as is None or report.dry_run else f"; {each.kept_as} is kept"
            note = f". {each.note}" if each.note else ""
            if not as_json:
                typer.echo(f"{each.key}: {each.action.value}, {_entries(each.entries)}{kept}{note}")
        if namespace.error is None and not namespace.hashes and not as_json:
            typer.echo(f"{namespace.namespace}: has no entries, nothing to do")
        if namespace.error is not None:
            _complain(f"{namespace.namespace}: not done. {namespace.error}")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _warn(text: str) -> None:
    _complain(f"warning: {text}")


def _complain(text: str) -> None:
    """Write a line to standard error; what a name holds does not control the terminal."""
    from anchorbolt.migration_tools.inspect.json_format import printable  # not for --help

    sys.stderr.write("".join(f"{printable(line)}\n" for line in text.split("\n")))
    sys.stderr.flush()
