"""The commands `anchorbolt state …` that only read. None of them starts Spark, or raises a fence."""

import json
import sys
import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from anchorbolt.cli.command import Conf, Json, Overrides, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DIFFERENT, DONE, KEY_ABSENT, STATE_REFUSED
from anchorbolt.cli.state import app
from anchorbolt.cli.storm_options import Enums, InTopology, KeyClass, Registered, Storm, ValueClass, storm_options
from anchorbolt.errors import ConfigError, UnsupportedValue


class ScanCodec(str, Enum):
    NAMESPACE = "namespace"
    STORM_KRYO = "storm-kryo"


@app.command()
@with_exit_code
def namespaces(
    conf: Conf = None,
    overrides: Overrides = None,
    topology: Annotated[str | None, option(metavar="NAME", help="Only this topology's namespaces.")] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only names with this prefix.")] = "",
    count: Annotated[bool, typer.Option("--count", help="Count the keys; this reads every entry.")] = False,
    as_json: Json = False,
) -> int:
    """List the namespaces of a store; with --json, one JSON object per line. Exit code 4 if one cannot be read."""
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import summary_line
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.entries import namespace_summaries

    if topology is not None and prefix:
        raise ConfigError("--topology and --prefix exclude each other. Give one.")
    provider, settings, _ = open_store(conf, overrides or ())
    if topology is not None:
        of_topology = settings.namespace_prefix_of(topology)
        prefix = f"{of_topology}:" if of_topology else ""
    with shown_progress(wanted=count) as progress:
        found = list(namespace_summaries(provider, prefix, count=count, progress=progress))
    width = max((len(each.namespace) for each in found), default=0)
    for each in found:
        print_line(json.dumps(vars(each)) if as_json else summary_line(each, width))
    if not found and not as_json:
        such = f" that begins with {prefix!r}" if prefix else ""
        sys.stderr.write(
            f"there is no namespace of Anchorbolt's{such} in {provider.describe()}. Storm's own are read by "
            "state scan --codec storm-kryo\n"
        )
    return STATE_REFUSED if any(each.problem for each in found) else DONE


@app.command()
@with_exit_code
def get(
    place: Annotated[
        str,
        typer.Argument(
            metavar="NAMESPACE|TOPOLOGY COMPONENT", help="A namespace, or a topology and one of its stateful bolts."
        ),
    ],
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="JSON (7, true, '\"7\"', '[\"a\", 1]' for a tuple), a Python literal (b'\\x00', ('a', 1)), or plain "
            "text.",
        ),
    ],
    conf: Conf = None,
    overrides: Overrides = None,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="KEYs are stored keys as hexadecimal digits.")] = False,
    as_json: Json = False,
) -> int:
    """Show the committed values of some keys; exit code 1 if one is absent.

    With a topology and a stateful bolt, the task that has a key is found by the key's hash.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import entry_content, entry_line, print_notes
    from anchorbolt.migration_tools.entries import component_namespaces, get_entries, is_stored_namespace

    provider, settings, codecs = open_store(conf, overrides or ())
    namespaces = [place]
    is_component = len(keys) > 1 and not is_stored_namespace(provider, place)
    if is_component:
        component, *keys = keys
        prefix = settings.namespace_prefix_of(place)
        namespaces = component_namespaces(provider, place, prefix, component)
    try:
        notes, found = get_entries(provider, namespaces, keys, codecs, hexadecimal=hexadecimal)
    except UnsupportedValue as error:  # a wrong argument; exit code 1 means that a key is absent
        raise ConfigError(error.message) from error
    if is_component and not as_json:
        notes += [f"{key} is in {name}" for key, (name, entry) in zip(keys, found, strict=True) if entry.value]
    print_notes(notes)
    for name, entry in found:
        content = {"namespace": name} if is_component else {}
        print_line(json.dumps({**content, **entry_content(entry)}) if as_json else entry_line(entry))
    return KEY_ABSENT if any(entry.value is None for _, entry in found) else DONE


@app.command()
@with_exit_code
def scan(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE|TOPOLOGY")],
    component: Annotated[
        str | None, typer.Argument(metavar="[COMPONENT]", help="Of a topology: all tasks of this stateful bolt.")
    ] = None,
    conf: Conf = None,
    overrides: Overrides = None,
    limit: Annotated[int | None, option(min=1, help="Stop after this number of entries.")] = None,
    attempt: Annotated[
        str | None, option(metavar="ID", help="Read as if this staged attempt were committed; see explain.")
    ] = None,
    codec: Annotated[
        ScanCodec,
        typer.Option(
            help="storm-kryo reads NAMESPACE in Redis or HBase, with its $prepare and $txid, that Storm's default "
            "serializer wrote. The options below are for it."
        ),
    ] = ScanCodec.NAMESPACE,
    registered: Registered = None,
    key_class: KeyClass = None,
    value_class: ValueClass = None,
    enums: Enums = None,
    in_topology: InTopology = None,
    storm: Storm = None,
    as_json: Json = False,
) -> int:
    """Show the entries of a namespace or a stateful bolt, in any order; with --json, one JSON object per line."""
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import print_scan
    from anchorbolt.migration_tools.entries import component_namespaces, scan_entries

    provider, settings, codecs = open_store(conf, overrides or ())
    if component is not None and (attempt is not None or codec is not ScanCodec.NAMESPACE):
        raise ConfigError("--attempt and --codec are for one namespace. Leave the COMPONENT out.")
    if codec is ScanCodec.STORM_KRYO:
        from anchorbolt.migration_tools.storm_state import scan_storm

        options = storm_options(registered, key_class, value_class, enums, in_topology, storm)
        with scan_storm(provider, namespace, options) as found:
            print_scan(namespace, *found, limit=limit, in_json=as_json)
        return DONE
    if any((registered, key_class, value_class, enums, storm)) or in_topology is not None:
        raise ConfigError(
            "--registered, --key-class, --value-class, --enum, --in-topology and --storm are for --codec "
            "storm-kryo. Add that, or leave them out."
        )
    names = [namespace]
    if component is not None:
        names = component_namespaces(provider, namespace, settings.namespace_prefix_of(namespace), component)
    for name in names:
        with scan_entries(provider, name, codecs, attempt=attempt) as found:
            shown = print_scan(name, *found, limit=limit, in_json=as_json)
        limit = None if limit is None else limit - shown
    return DONE


@app.command()
@with_exit_code
def explain(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY")],
    conf: Conf = None,
    overrides: Overrides = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not count keys and bytes.")] = False,
    as_json: Json = False,
) -> int:
    """Explain a topology's state: what is committed, what blocks the checkpoint, what the next start will do."""
    from anchorbolt.cli.places import open_place, open_store
    from anchorbolt.cli.state.text import report_content, report_lines
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.topology_inspection import explain as explained

    provider, settings, codecs = open_store(conf, overrides or ())
    prefix = settings.namespace_prefix_of(topology)
    folder = open_place(settings.checkpoint_location_of(topology))
    with shown_progress(wanted=not quick) as progress:
        report = explained(provider, topology, prefix, codecs, folder, measure=not quick, progress=progress)
    place = provider.describe()
    lines = [json.dumps(report_content(report, place), indent=2)] if as_json else report_lines(report, place)
    print_line("\n".join(lines))
    return DONE


@app.command()
@with_exit_code
def diff(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    to_file: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="Configuration of the other store, YAML or JSON.")
    ],
    components: Annotated[
        list[str] | None, typer.Argument(metavar="[COMPONENT...]", help="Only these stateful bolts.")
    ] = None,
    conf: Conf = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> int:
    """Show the keys in which a topology's state differs in two stores; exit code 1 if there are any.

    A line with - is an entry of the store of --conf, and one with + of the store of --to. Stop the topology first.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import difference_content, difference_lines
    from anchorbolt.migration_tools.comparing import Side, differences

    opened = [open_store(conf, overrides or ()), open_store(to_file, ())]
    here, there = (
        Side(provider, topology, settings.namespace_prefix_of(topology), codecs)
        for provider, settings, codecs in opened
    )
    code = DONE
    for each in differences(here, there, components or (), now=int(time.time() * 1000)):
        print_line(json.dumps(difference_content(each)) if as_json else "\n".join(difference_lines(each)))
        code = DIFFERENT
    return code
