"""The command `anchorbolt migrate storm-state`: its options and its output. `migration_tools.storm_import` does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli import exit_codes
from anchorbolt.cli.command import Json, option, print_line, with_exit_code
from anchorbolt.cli.migrate import SET_HELP
from anchorbolt.cli.state.changes import numbers_of_tasks
from anchorbolt.cli.storm_options import Enums, InTopology, KeyClass, Registered, Storm, ValueClass, storm_options
from anchorbolt.errors import ConfigError

if TYPE_CHECKING:
    from anchorbolt.migration_tools.storm_import import StormImportReport


@with_exit_code
def storm_state(
    topology: Annotated[str, typer.Option(metavar="NAME", show_default=False, help="The topology to make.")],
    components: Annotated[
        list[str],
        typer.Option(
            "--component",
            metavar="BOLT=COMPONENT",
            show_default=False,
            help="A bolt, and the component of Storm whose state it gets: all its namespaces COMPONENT-<task id>. May "
            "be repeated.",
        ),
    ],
    from_file: Annotated[
        Path | None,
        option("--from", metavar="FILE", help="Configuration that names the Redis or HBase with Storm's state."),
    ] = None,
    to_file: Annotated[Path | None, option("--to", metavar="FILE", help="Configuration of the new topology.")] = None,
    from_overrides: Annotated[list[str] | None, option("--from-set", metavar="KEY=VALUE", help=SET_HELP)] = None,
    to_overrides: Annotated[list[str] | None, option("--to-set", metavar="KEY=VALUE", help=SET_HELP)] = None,
    parallelism: Annotated[
        list[str] | None,
        option(
            metavar="BOLT=TASKS", help="Number of tasks of a bolt; by default as many as on Storm. May be repeated."
        ),
    ] = None,
    checkpoint_spout: Annotated[
        str | None,
        option(metavar="NAMESPACE", help="Storm's $checkpointspout-<task id>. Needed only if there are several."),
    ] = None,
    registered: Registered = None,
    key_class: KeyClass = None,
    value_class: ValueClass = None,
    enums: Enums = None,
    in_topology: InTopology = None,
    storm: Storm = None,
    dry_run: Annotated[bool, option("--dry-run", help="Read and check everything; write nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Take the state of a Storm topology into a new topology of Anchorbolt, all of it or nothing.

    Stop the topology on Storm first. Storm's state is only read. After an interruption, run the command again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.storm_import import import_storm_state

    options = storm_options(registered, key_class, value_class, enums, in_topology, storm)
    named = list(map(_bolt_and_component, components))
    bolts = dict(named)
    if len(bolts) < len(named):
        raise ConfigError("--component names a bolt twice: give one component of Storm for each bolt")
    source, _, _ = open_store(from_file, from_overrides or ())
    target, settings, codecs = open_store(to_file, to_overrides or ())
    with shown_progress() as progress:
        report = import_storm_state(
            source,
            target,
            topology,
            settings.namespace_prefix_of(topology),
            bolts,
            options,
            codecs,
            parallelism=numbers_of_tasks(parallelism or ()),
            checkpoint_spout=checkpoint_spout,
            dry_run=dry_run,
            progress=progress,
        )
    print_line(json.dumps(report.to_content(), indent=2) if as_json else "\n".join(_lines(report)))
    return exit_codes.DONE


def _bolt_and_component(text: str) -> tuple[str, str]:
    bolt, equals, component = text.partition("=")
    if not (bolt and equals and component):
        raise ConfigError(f"{text!r} is not of the form BOLT=COMPONENT, as count=count: a bolt, a component of Storm.")
    return bolt, component


def _lines(report: StormImportReport) -> list[str]:
    lines = [f"from Storm in {report.source} to {report.target}"]
    for bolt in report.bolts:
        tasks = "1 task" if bolt.tasks == 1 else f"{bolt.tasks} tasks"
        lines.append(f"{bolt.component}: {', '.join(bolt.storm_tasks)} to {tasks}, {bolt.entries:,} entries")
    how = "Storm was committing it: the prepared entries count" if report.rolls_forward else "committed on Storm"
    lines.append(f"txid {report.txid}: {how}")
    if report.is_dry_run:
        lines.append("dry run: nothing was written")
    elif report.was_there:
        lines.append("an earlier import has written this state")
    else:
        lines.append(f"topology {report.topology!r} can be started with this state, at a new checkpoint location")
    return lines
