"""The command `anchorbolt migrate copy`: from one provider to another."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli.command import print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE
from anchorbolt.errors import ConfigError

if TYPE_CHECKING:
    from anchorbolt.migration_tools.copy.copying import CopyReport

_option = partial(typer.Option, show_default=False)
_SET = "Set one key of that configuration, as --set does for a run. May be repeated. Not for passwords."


@with_exit_code
def copy(
    from_file: Annotated[
        Path | None, _option("--from", metavar="FILE", help="Configuration that names the source.")
    ] = None,
    to_file: Annotated[
        Path | None, _option("--to", metavar="FILE", help="Configuration that names the target.")
    ] = None,
    from_overrides: Annotated[list[str] | None, _option("--from-set", metavar="KEY=VALUE", help=_SET)] = None,
    to_overrides: Annotated[list[str] | None, _option("--to-set", metavar="KEY=VALUE", help=_SET)] = None,
    topology: Annotated[str | None, _option(metavar="NAME", help="Copy this topology and its decision record.")] = None,
    namespace: Annotated[str | None, _option(metavar="NAME", help="Copy this one namespace.")] = None,
    take_fence: Annotated[
        bool,
        _option(
            "--take-fence",
            help="Take the fence of a killed run. A run that is still alive ends with Fenced at its next wave.",
        ),
    ] = False,
    with_custom_states: Annotated[
        bool, _option("--with-custom-states", help="The custom states of the topology were copied by hand.")
    ] = False,
    dry_run: Annotated[bool, _option("--dry-run", help="Check and print what would be copied; write nothing.")] = False,
    as_json: Annotated[bool, _option("--json", help="Print JSON.")] = False,
) -> int:
    """Copy state from one provider to another, and compare both by count and checksum.

    The source is only read. Refused while a run holds the fence. After an interruption, run the command again.
    """
    from anchorbolt.cli.store import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.copy.copying import copy_namespace, copy_topology

    if (topology is None) == (namespace is None):
        raise ConfigError("give either --topology NAME or --namespace NAME")
    source = open_store(from_file, from_overrides or ())
    target = open_store(to_file, to_overrides or ())
    if namespace is not None:
        if take_fence or with_custom_states:
            raise ConfigError("--take-fence and --with-custom-states are for --topology only")
        copied = partial(copy_namespace, namespace=namespace)
    else:
        assert topology is not None
        prefix = source.settings.namespace_prefix_of(topology)
        if target.settings.namespace_prefix_of(topology) != prefix:
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
        report = copied(source.provider, target.provider, dry_run=dry_run, progress=progress)
    print_line(json.dumps(report.to_content(), indent=2) if as_json else "\n".join(_lines(report)))
    return DONE


def _lines(report: CopyReport) -> list[str]:
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
