"""`anchorbolt migrate base64-to-binary`, `undo` and `discard-backup`: their options and their output.

`migration_tools.base64_to_binary` does the work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli import exit_codes
from anchorbolt.cli.command import print_error, print_line, run_command
from anchorbolt.cli.migrate.redis_options import RedisOptions, with_redis_options
from anchorbolt.migration_tools import base64_to_binary as tool
from anchorbolt.migration_tools.base64_to_binary.conversion import Wrapper
from anchorbolt.storm.kryo.stored_form import Content

if TYPE_CHECKING:
    from anchorbolt.migration_tools.progress import Progress
    from anchorbolt.state_backends.redis.hashes import RedisHashes

EXIT_CODES = (
    "Exit codes: 0 everything is done, or there was nothing to do; 2 wrong usage, login or permission; 4 a namespace "
    "was refused, or Redis failed: steps that are not reported as done were not done; 130 interrupted by Ctrl-C."
)
_DO_NOT_WRITE = "Do everything except writing."

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
    bool, typer.Option("--include-checkpoint-spout", help="Also take the namespaces $checkpointspout-<task>.")
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
    include_checkpoint_spout: CheckpointSpout = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Convert nothing: compare <namespace>_old with <namespace>.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Convert state that Storm 1.0 and 1.1 wrote to Redis from Base64 to binary, as Storm 1.2 reads it.

    Stop the topology first. The old data is kept as <namespace>_old. After an interruption, run the command again.
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
        return tool.migrate(hashes, names, how, include_checkpoint_spout=include_checkpoint_spout, progress=progress)

    _run(redis, run, as_json=as_json)


@with_redis_options
def undo(
    redis: ReadOptions,
    namespace: Namespaces,
    keep_changed: Annotated[
        bool,
        typer.Option(
            "--keep-changed",
            help="Keep a namespace that has changed since as <namespace>_undone; by default it is refused.",
        ),
    ] = False,
    include_checkpoint_spout: CheckpointSpout = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Undo a migration: move <namespace>_old back to <namespace>. Stop the topology first."""

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
    """Remove <namespace>_old, if <namespace> is still exactly the result of the migration."""

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


def _run(redis: ReadOptions, command: Callable[[RedisHashes, Progress], tool.Report], *, as_json: bool) -> None:
    # --help and --version must not wait for these imports.
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.state_backends.redis.hashes import RedisHashes

    def migrate() -> int:
        options = redis()
        for warning in options.warnings:
            print_error(f"warning: {warning}")
        try:
            with RedisHashes(options.address) as hashes, shown_progress() as progress:
                report = command(hashes, progress)
        except tool.Interrupted as left:
            _show(left.report, as_json=as_json)
            raise
        _show(report, as_json=as_json)
        return exit_codes.DONE if report.error is None else exit_codes.exit_code(report.error, running=False)

    raise run_command(
        migrate,
        as_json=as_json,
        interrupted="interrupted: steps that are not reported as done were not done; run the command again to finish",
        failed={"done": False},
    )


def _show(report: tool.Report, *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(report.as_json(), indent=2))
    for warning in report.warnings:
        print_error(f"warning: {warning}")
    for namespace in report.namespaces:
        for each in namespace.hashes:
            kept = "" if each.kept_as is None or report.dry_run else f"; {each.kept_as} is kept"
            note = f". {each.note}" if each.note else ""
            if not as_json:
                print_line(f"{each.key}: {each.action.value}, {_entries(each.entries)}{kept}{note}")
        if namespace.error is None and not namespace.hashes and not as_json:
            print_line(f"{namespace.namespace}: has no entries, nothing to do")
        if namespace.error is not None:
            print_error(f"{namespace.namespace}: not done. {namespace.error}")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"
