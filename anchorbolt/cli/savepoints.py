"""The commands `anchorbolt state savepoint`, `savepoints`, `verify`, `restore`, `fork` and `discard`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli.command import Conf, Json, Overrides, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE, STATE_REFUSED
from anchorbolt.cli.state import app
from anchorbolt.cli.state.changes import DryRun, TakeFence, numbers_of_tasks
from anchorbolt.cli.state.recorded import add_to_history

if TYPE_CHECKING:
    from anchorbolt.config.settings import Settings
    from anchorbolt.files import Folder
    from anchorbolt.migration_tools.savepoints.manifest import Manifest
    from anchorbolt.migration_tools.savepoints.stored import Savepoint

_NICE = 10  # if the topology runs on this machine, its waves come first

_Place = Annotated[
    str, typer.Argument(metavar="SAVEPOINT", help="Its directory: a path, or a URI such as s3a://bucket/savepoints/a.")
]
_Tasks = Annotated[
    list[str] | None,
    option("--rescale", metavar="BOLT=TASKS", help="Give a stateful bolt another parallelism. May be repeated."),
]


@app.command()
@with_exit_code
def savepoint(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    conf: Conf = None,
    overrides: Overrides = None,
    to: Annotated[
        str | None,
        option(
            metavar="PLACE",
            help="The directory of savepoints, also s3a:// or hdfs://. By default the checkpoint location with "
            "-savepoints behind its name.",
        ),
    ] = None,
    name: Annotated[str | None, option(metavar="NAME", help="By default the time, as 2026-11-29T10-15-00.")] = None,
    take_fence: TakeFence = False,
    as_json: Json = False,
) -> int:
    """Save the state of a topology, and where its sources are, in a directory of Parquet files.

    The topology may run: no wave waits, and the savepoint is the state after one of them.
    """
    from anchorbolt.cli.places import open_place, open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.savepoints.taking import take_savepoint

    os.nice(_NICE)
    provider, settings, _ = open_store(conf, overrides or ())
    checkpoint = open_place(settings.checkpoint_location_of(topology))
    place = _savepoints_of(topology, settings, to)
    name = name or time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
    with shown_progress() as progress:
        manifest = take_savepoint(
            provider,
            topology,
            settings.namespace_prefix_of(topology),
            checkpoint,
            place,
            name,
            take_fence=take_fence,
            progress=progress,
        )
    where = f"{place.location}/{name}"
    print_line(json.dumps(_content(where, manifest)) if as_json else f"{_line(where, manifest)}")
    return DONE


@app.command()
@with_exit_code
def savepoints(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    conf: Conf = None,
    overrides: Overrides = None,
    to: Annotated[str | None, option(metavar="PLACE", help="The directory of savepoints.")] = None,
    as_json: Json = False,
) -> int:
    """List the savepoints of a topology, without interrupted ones; with --json, one JSON object per line.

    Exit code 4 if the manifest of one is damaged; the others are listed.
    """
    from anchorbolt.config.loading import load_conf
    from anchorbolt.errors import StateCorrupted
    from anchorbolt.migration_tools.savepoints.stored import Savepoint, savepoints_in

    settings = load_conf(file=conf, overrides=overrides or ()).settings
    place = _savepoints_of(topology, settings, to)
    found, is_whole = {}, True
    for name in savepoints_in(place):
        try:
            found[name] = Savepoint.read(place, name).manifest
        except StateCorrupted as error:
            is_whole = False
            sys.stderr.write(f"{error.message}\n")
    own = {f"{place.location}/{name}": each for name, each in found.items() if each.topology == topology}
    for where, manifest in own.items():
        print_line(json.dumps(_content(where, manifest)) if as_json else _line(where, manifest))
    if not own:
        others = ", ".join(sorted({each.topology for each in found.values()}))
        also = f", only of {others}" if others else ""
        sys.stderr.write(f"there is no savepoint of {topology} in {place.location}{also}\n")
    return DONE if is_whole else STATE_REFUSED


@app.command()
@with_exit_code
def verify(place: _Place, as_json: Json = False) -> int:
    """Read a whole savepoint, and compare it with its checksums; exit code 4 if it is damaged."""
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.savepoints.stored import verify as verified

    found = _opened(place)
    with shown_progress() as progress:
        verified(found, progress)
    print_line(json.dumps(_content(place, found.manifest)) if as_json else f"whole: {_line(place, found.manifest)}")
    return DONE


@app.command()
@with_exit_code
def restore(
    place: _Place,
    conf: Conf = None,
    overrides: Overrides = None,
    rescale: _Tasks = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Restore the topology of a savepoint into an empty store, of any provider, and a new checkpoint location.

    If the command is interrupted, run it again.
    """
    return _restored(_opened(place), None, conf, overrides, rescale, dry_run=dry_run, as_json=as_json)


@app.command()
@with_exit_code
def fork(
    place: _Place,
    topology: Annotated[str, typer.Argument(metavar="NEW_TOPOLOGY", help="The name of the new topology.")],
    conf: Conf = None,
    overrides: Overrides = None,
    rescale: _Tasks = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Make a new topology from a savepoint: its state, with the sources where they were, and sinks of its own.

    If the command is interrupted, run it again.
    """
    return _restored(_opened(place), topology, conf, overrides, rescale, dry_run=dry_run, as_json=as_json)


@app.command()
@with_exit_code
def discard(place: _Place) -> int:
    """Delete a savepoint, or what an interrupted one has left."""
    from anchorbolt.migration_tools.savepoints.stored import discard as discarded

    folder, name = _split(place)
    discarded(folder, name)
    print_line(f"deleted: {place}")
    return DONE


def _restored(
    savepoint: "Savepoint",
    topology: str | None,
    conf: Path | None,
    overrides: list[str] | None,
    rescale: list[str] | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    from anchorbolt.cli.places import open_place, open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.savepoints.restoring import restore_savepoint

    provider, settings, codecs = open_store(conf, overrides or ())
    name = topology or savepoint.manifest.topology
    savepoint = savepoint.as_topology(name, settings.namespace_prefix_of(name))
    checkpoint = open_place(settings.checkpoint_location_of(name))
    parallelism = numbers_of_tasks(rescale or ())
    with shown_progress() as progress:
        report = restore_savepoint(
            savepoint, provider, checkpoint, codecs, parallelism=parallelism, dry_run=dry_run, progress=progress
        )
    if not dry_run:
        add_to_history(name, conf, overrides or ())
    if as_json:
        print_line(json.dumps(report.to_content()))
        return DONE
    tasks = ", ".join(f"{bolt}={number}" for bolt, number in report.parallelism.items())
    print_line(
        f"{'dry run: nothing was written. ' if dry_run else ''}{report.entries:,} entries of {report.topology} "
        f"up to txid {report.txid} in {report.store}, checkpoint location {report.checkpoint}. Start it with {tasks}"
    )
    return DONE


def _savepoints_of(topology: str, settings: "Settings", to: str | None) -> "Folder":
    from anchorbolt.files import open_folder

    return open_folder(to or f"{settings.checkpoint_location_of(topology).rstrip('/')}-savepoints")


def _split(place: str) -> tuple["Folder", str]:
    from anchorbolt.errors import ConfigError
    from anchorbolt.files import open_folder

    folder, _, name = place.rstrip("/").rpartition("/")
    if not name:
        raise ConfigError(f"{place!r} is not the directory of a savepoint.")
    return open_folder(folder or ("/" if place.startswith("/") else ".")), name


def _opened(place: str) -> "Savepoint":
    from anchorbolt.migration_tools.savepoints.stored import Savepoint

    return Savepoint.read(*_split(place))


def _content(where: str, manifest: "Manifest") -> dict[str, object]:
    names = ("topology", "created", "txid", "query_id", "batch_id", "parallelism", "entries", "size")
    return {"savepoint": where, **{name: getattr(manifest, name) for name in names}}


def _line(where: str, manifest: "Manifest") -> str:
    from anchorbolt.util.times import shown_time

    return (
        f"{where}: {manifest.topology} up to txid {manifest.txid}, {manifest.entries:,} entries, {manifest.size:,} "
        f"bytes, taken {shown_time(manifest.created)}"
    )
