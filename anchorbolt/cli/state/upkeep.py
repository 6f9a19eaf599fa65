"""The commands `anchorbolt state ls` and `anchorbolt state purge`. Neither starts Spark."""

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli.command import Conf, Json, Overrides, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE, STATE_REFUSED
from anchorbolt.cli.state import app
from anchorbolt.cli.state.changes import DryRun, TakeFence
from anchorbolt.cli.state.recorded import add_to_history, owner_of
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.util.messages import counted

if TYPE_CHECKING:
    from anchorbolt.migration_tools.upkeep.listing import StoredTopology
    from anchorbolt.migration_tools.upkeep.purging import PurgeReport

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


@app.command()
@with_exit_code
def ls(
    conf: Conf = None,
    overrides: Overrides = None,
    count: Annotated[bool, typer.Option("--count", help="Count the keys; this reads every entry.")] = False,
    as_json: Json = False,
) -> int:
    """List the topologies in a store, with sizes and ages, and namespaces that are left over.

    With --json, one JSON object per line. Exit code 4 if a namespace cannot be read.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.upkeep.listing import stored_topologies

    provider, _, _ = open_store(conf, overrides or ())
    with shown_progress(wanted=count) as progress:
        found = stored_topologies(provider, count=count, progress=progress)
    now = int(time.time() * 1000)
    for each in found:
        print_line(json.dumps(each.to_content()) if as_json else "\n".join(_lines(each, now)))
    if not found and not as_json:
        sys.stderr.write(f"there is no namespace of Anchorbolt's in {provider.describe()}\n")
    return STATE_REFUSED if any(each.problems for each in found) else DONE


@app.command()
@with_exit_code
def purge(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    conf: Conf = None,
    overrides: Overrides = None,
    component: Annotated[
        str | None, option(metavar="COMPONENT", help="Only the entries of this stateful bolt, in one transaction.")
    ] = None,
    deleted_keys: Annotated[
        bool,
        typer.Option(
            "--deleted-keys",
            help="Only what HBase keeps of deleted keys. No process of a driver from before the deletes may be left.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Needed to remove anything: it cannot be undone.")] = False,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Remove the state of a topology that is gone: all of its namespaces, and its decision record.

    Stop it first. Its checkpoint location, dead letters and output stay. If the command is interrupted, run it again.
    """
    from anchorbolt.cli.places import open_place, open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.upkeep.purging import forget_deleted_keys, purge_component, purge_topology
    from anchorbolt.observe.history.segments import keep_changes

    if not (yes or dry_run):
        raise ConfigError("a purge cannot be undone. See what it removes with --dry-run, and repeat it with --yes.")
    if component is not None and deleted_keys:
        raise ConfigError("--component and --deleted-keys exclude each other. Give one.")
    provider, settings, _ = open_store(conf, overrides or ())
    prefix = settings.namespace_prefix_of(topology)
    if deleted_keys:
        found = forget_deleted_keys(provider, topology, prefix, take_fence=take_fence, dry_run=dry_run)
        lines = [f"{name}: {counted(number, 'deleted key')} forgotten" for name, number in found.items() if number]
        print_line(json.dumps(found) if as_json else "\n".join(lines or ["there is nothing to remove"]))
        return DONE
    with shown_progress() as progress:
        report = (
            purge_topology(provider, topology, prefix, take_fence=take_fence, dry_run=dry_run, progress=progress)
            if component is None
            else purge_component(
                provider, topology, prefix, component, take_fence=take_fence, dry_run=dry_run, progress=progress
            )
        )
    location = settings.checkpoint_location_of(topology)
    advice = f"A start with the checkpoint location {location} is refused: delete it, too, or name another"
    if report.change:
        with suppress(AnchorboltError, OSError):  # the topology is gone, and so may be its location
            if (owner := owner_of(folder := open_place(location), topology)) != topology:
                advice = f"Its checkpoint location stays: delete it, too. {location} is that of {owner}: keep it"
            elif folder.exists(""):
                keep_changes(folder, [report.change])
    elif not dry_run:
        add_to_history(topology, conf, overrides or ())
    print_line(json.dumps(report.to_content()) if as_json else "\n".join(_purge_lines(report, component, advice)))
    return DONE


def _purge_lines(report: "PurgeReport", component: str | None, advice: str) -> list[str]:
    lines = [
        f"{name}: {'unknown number of keys' if count is None else counted(count, 'key')}"
        for name, count in report.namespaces.items()
    ]
    lines += [f"{name} belongs to a custom state: remove its own data yourself" for name in report.custom]
    if report.is_dry_run:
        return [*lines, f"dry run: nothing was written in {report.store}"]
    if component is not None:
        return [*lines, f"deleted in {report.store}: {component!r} has no state any more"]
    return [*lines, f"removed from {report.store}. {advice}"]


def _lines(found: "StoredTopology", now: int) -> list[str]:
    entries = "unknown number of keys" if found.entries is None else counted(found.entries, "key")
    size = "unknown size" if found.size is None else f"{found.size:,} bytes"
    parts = [counted(found.namespaces, "namespace"), entries, size]
    if found.txid is None:
        title = f"(no decision record, prefix {found.prefix!r})"
    else:
        title = found.topology if found.topology == found.prefix else f"{found.topology} (prefix {found.prefix!r})"
        age = "at an unknown time" if found.committed_at is None else f"{_duration(now - found.committed_at)} ago"
        parts.append(f"txid {found.txid} committed {age}" if found.txid >= 0 else "nothing committed")
    parts.append(
        f"generation {found.generation} holds the fence: a driver is alive, or was killed"
        if found.holds_fence
        else "no driver"
    )
    lines = [f"{title}: {', '.join(parts)}"]
    lines += [f"    left over: {name}" for name in found.left_over]
    return [*lines, *(f"    cannot be read: {problem}" for problem in found.problems)]


def _duration(ms: int) -> str:
    for unit, name in _UNITS:
        if ms >= unit:
            return f"{ms // unit} {name}"
    return "less than 1 s"
