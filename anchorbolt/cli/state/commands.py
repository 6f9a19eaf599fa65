"""The commands `anchorbolt state …`. None of them writes, raises a fence, or starts Spark."""

import json
import sys
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from anchorbolt.cli.command import print_line, run_command
from anchorbolt.cli.exit_codes import DONE, JOB_FAILED, STATE_REFUSED
from anchorbolt.errors import ConfigError, UnsupportedValue

app = typer.Typer(
    help="Inspect the state in any store: namespaces, entries, and the progress of a topology. Reads only.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Conf = Annotated[
    Path | None,
    typer.Option("--conf", metavar="FILE", show_default=False, help="Configuration of the run, YAML or JSON."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        show_default=False,
        help="Set one key, overriding the file. Not for passwords: use passwordEnv or passwordFile.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_SHOWN_CHARACTERS = 500


class ScanCodec(str, Enum):
    """The encoding of the entries."""

    NAMESPACE = "namespace"
    STORM_KRYO = "storm-kryo"


class StormVersion(str, Enum):
    """The generations of Storm's format."""

    STORM_1_0 = "1.0"
    STORM_1_1 = "1.1"
    STORM_1_2 = "1.2"
    STORM_2_0 = "2.0"
    STORM_2_6 = "2.6"


@app.command()
def namespaces(
    conf: Conf = None,
    overrides: Overrides = None,
    topology: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Only those of this topology.")
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Only names with this prefix.")] = "",
    count: Annotated[bool, typer.Option("--count", help="Count the keys; this reads every entry.")] = False,
    as_json: Json = False,
) -> None:
    """List the namespaces of a store; with --json, an object a line. Exit code 4 if one cannot be read."""
    from anchorbolt.cli.state.text import summary_line
    from anchorbolt.cli.store import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.inspect.inspection import namespace_summaries

    def list_them() -> int:
        if topology is not None and prefix:
            raise ConfigError("--topology and --prefix exclude each other. Give one.")
        store = open_store(conf, overrides or ())
        chosen = prefix
        if topology is not None:
            of_topology = store.settings.namespace_prefix_of(topology)
            chosen = f"{of_topology}:" if of_topology else ""
        with shown_progress(wanted=count) as progress:
            found = list(namespace_summaries(store.provider, chosen, count=count, progress=progress))
        width = max((len(each.namespace) for each in found), default=0)
        for each in found:
            print_line(json.dumps(vars(each)) if as_json else summary_line(each, width))
        if not found and not as_json:
            such = f" that begins with {chosen!r}" if chosen else ""
            sys.stderr.write(
                f"there is no namespace of Anchorbolt's{such} in {store.provider.describe()}. Storm's own are read by "
                "state scan --codec storm-kryo\n"
            )
        return STATE_REFUSED if any(each.problem for each in found) else DONE

    raise run_command(list_them, as_json=as_json)


@app.command()
def get(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE")],
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
) -> None:
    """Show the committed values of some keys; exit code 1 if one is absent."""
    from anchorbolt.cli.state.text import entry_content, entry_line
    from anchorbolt.cli.store import open_store
    from anchorbolt.migration_tools.inspect.inspection import get_entries

    def get_them() -> int:
        store = open_store(conf, overrides or ())
        try:
            got = get_entries(store.provider, namespace, keys, store.codecs, hexadecimal=hexadecimal)
        except UnsupportedValue as error:  # a wrong argument; exit code 1 means that a key is absent
            raise ConfigError(error.message) from error
        _tell(got.notes)
        for entry in got.entries:
            print_line(json.dumps(entry_content(entry)) if as_json else entry_line(entry))
        return JOB_FAILED if got.absent else DONE

    raise run_command(get_them, as_json=as_json)


@app.command()
def scan(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE")],
    conf: Conf = None,
    overrides: Overrides = None,
    limit: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Stop after this number of entries.")
    ] = None,
    attempt: Annotated[
        str | None,
        typer.Option(
            metavar="ID", show_default=False, help="Read as if this staged attempt were committed; see explain."
        ),
    ] = None,
    codec: Annotated[
        ScanCodec,
        typer.Option(
            help="storm-kryo reads NAMESPACE as a plain Redis hash, with its $prepare and $txid, that Storm's default "
            "serializer wrote. The options below are for it."
        ),
    ] = ScanCodec.NAMESPACE,
    registered: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS",
            show_default=False,
            help="A Java class that topology.state.kryo.register lists, in its order. May be repeated.",
        ),
    ] = None,
    key_class: Annotated[
        str | None, typer.Option(metavar="CLASS", show_default=False, help="Storm's keyClass.")
    ] = None,
    value_class: Annotated[
        str | None, typer.Option(metavar="CLASS", show_default=False, help="Storm's valueClass.")
    ] = None,
    enums: Annotated[
        list[str] | None,
        typer.Option(
            "--enum",
            metavar="CLASS=A,B,…",
            show_default=False,
            help="The constants of an enum of yours. May be repeated.",
        ),
    ] = None,
    in_topology: Annotated[
        bool | None,
        typer.Option(
            "--in-topology/--outside-topology",
            show_default=False,
            help="Whether a topology of Storm 2 wrote the state; it is asked for where the bytes do not say.",
        ),
    ] = None,
    storm: Annotated[
        StormVersion | None,
        typer.Option(
            show_default=False, help="Which Storm wrote it, if the bytes do not say; the first release of it."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the entries of a namespace, in any order; with --json, an object a line."""
    from anchorbolt.cli.state.text import entry_content, entry_line
    from anchorbolt.cli.store import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.inspect.inspection import scan_entries

    def scan_it() -> int:
        store = open_store(conf, overrides or ())
        if codec is ScanCodec.STORM_KRYO:
            from anchorbolt.cli.state.storm_scan import scan_storm

            return scan_storm(
                store.provider,
                namespace,
                limit=limit,
                as_json=as_json,
                key_classes=[*([key_class] if key_class else []), *(registered or [])],
                value_classes=[*([value_class] if value_class else []), *(registered or [])],
                enums=enums or [],
                in_topology=in_topology,
                storm=None if storm is None else storm.value,
            )
        if any((registered, key_class, value_class, enums, storm)) or in_topology is not None:
            raise ConfigError(
                "--registered, --key-class, --value-class, --enum, --in-topology and --storm are for --codec "
                "storm-kryo. Add that, or leave them out."
            )
        notes, pages = scan_entries(store.provider, namespace, store.codecs, attempt=attempt)
        _tell(notes)
        with shown_progress(wanted=not sys.stdout.isatty()) as progress:
            progress.begin(f"scanning {namespace}", limit)
            entries = (entry for page in pages for entry in page)
            for number, entry in enumerate(islice(entries, limit), 1):
                print_line(json.dumps(entry_content(entry)) if as_json else entry_line(entry, _SHOWN_CHARACTERS))
                if number % 1000 == 0:
                    progress.advance(1000)
            pages.close()
        return DONE

    raise run_command(scan_it, as_json=as_json)


@app.command()
def explain(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY")],
    conf: Conf = None,
    overrides: Overrides = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do not count keys and bytes.")] = False,
    as_json: Json = False,
) -> None:
    """Explain a topology's state: what is committed, what blocks the checkpoint, what the next start will do."""
    from anchorbolt.cli.state.text import report_content, report_lines
    from anchorbolt.cli.store import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.inspect import explanation
    from anchorbolt.util.locations import open_folder

    def explain_it() -> int:
        store = open_store(conf, overrides or ())
        settings, provider = store.settings, store.provider
        folder = open_folder(settings.checkpoint_location_of(topology))
        with shown_progress(wanted=not quick) as progress:
            report = explanation.explain(
                provider,
                topology,
                settings.namespace_prefix_of(topology),
                store.codecs,
                folder,
                measure=not quick,
                progress=progress,
            )
        place = provider.describe()
        if as_json:
            print_line(json.dumps(report_content(report, place), indent=2))
        else:
            print_line("\n".join(report_lines(report, place)))
        return DONE

    raise run_command(explain_it, as_json=as_json)


def _tell(notes: tuple[str, ...]) -> None:
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
