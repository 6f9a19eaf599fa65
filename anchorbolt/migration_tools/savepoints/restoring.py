"""Restores a savepoint into a store: as its topology, or as a fork of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.errors import MigrationRefused, StateUnavailable
from anchorbolt.files import Folder
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import copy_topology
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.rescaling import rescale_state
from anchorbolt.migration_tools.savepoints.stored import Savepoint, verify
from anchorbolt.migration_tools.stopped_topology import read_stopped
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.state_backends.contract import StateProvider


@dataclass(frozen=True)
class RestoreReport:
    """The result of a restore or a fork, or of a dry run.

    Attributes:
        savepoint: Description of the savepoint.
        store: Description of the store.
        checkpoint: The checkpoint location, which has the positions of the query's sources now.
        topology: Name of the topology that can be started.
        txid: Its last transaction.
        entries: The number of entries in the savepoint.
        parallelism: Number of tasks by stateful bolt.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    savepoint: str
    store: str
    checkpoint: str
    topology: str
    txid: int
    entries: int
    parallelism: Mapping[str, int]
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return vars(self)


def restore_savepoint(
    savepoint: Savepoint,
    target: StateProvider,
    checkpoint: Folder,
    codecs: Codecs,
    *,
    parallelism: Mapping[str, int] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RestoreReport:
    """Copy a savepoint into a store, and the positions of its sources to a checkpoint location.

    A call after an interrupted one finishes it. All files are read and checked before anything is written. A topology
    that is started on an unfinished restore is refused.

    Args:
        savepoint: The savepoint, or a fork of it.
        target: The store. It must have no state of the topology, except from an earlier restore of this savepoint.
        checkpoint: The checkpoint location of the topology's runs, which must be empty, likewise.
        codecs: The configured codecs, to rescale.
        parallelism: Another number of tasks for some bolts.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        MigrationRefused: The store has other state of the topology, or the checkpoint location has other files; or a
            bolt cannot have the number of tasks.
        StateCorrupted: The savepoint is damaged. Nothing was changed.
        StateError: The store failed; see `StateStorage`.
    """
    saved, topology, prefix = savepoint.manifest, savepoint.topology, savepoint.prefix
    wanted = {bolt: tasks for bolt, tasks in (parallelism or {}).items() if saved.parallelism.get(bolt) != tasks}
    found = read_topology(target, topology, prefix).stored
    if _is_rescaled(found, savepoint, wanted):
        read_stopped(target, topology, prefix, taken=False, dry_run=dry_run)  # commits what a killed call has decided
    else:
        copies = not wanted or found is None or found != read_topology(savepoint, topology, prefix).stored
        if copies:
            verify(savepoint, progress)
        if wanted and copies:
            rescale_state(savepoint, topology, prefix, wanted, codecs, dry_run=True, progress=progress)
        how = "restore" if topology == saved.topology else "fork"
        for only_checks in (True,) if dry_run else (True, False):  # all checks come before the first write
            _place_sources(savepoint, checkpoint, dry_run=only_checks)
            if copies:
                copy_topology(savepoint, target, topology, prefix, dry_run=only_checks, progress=progress, command=how)
        if wanted and not dry_run:
            rescale_state(target, topology, prefix, wanted, codecs, progress=progress)
    return RestoreReport(
        savepoint.describe(),
        target.describe(),
        checkpoint.location,
        topology,
        saved.txid + bool(wanted),
        saved.entries,
        {**saved.parallelism, **wanted},
        dry_run,
    )


def _is_rescaled(found: DecisionRecord | None, savepoint: Savepoint, wanted: Mapping[str, int]) -> bool:
    """Return whether an earlier call has restored and rescaled, and no run has followed."""
    saved = savepoint.manifest
    return (
        bool(wanted)
        and found is not None
        and (found.txid, found.query_id) == (saved.txid + 1, savepoint.query_id)
        and dict(found.parallelism) == {**saved.parallelism, **wanted}
    )


def _place_sources(savepoint: Savepoint, checkpoint: Folder, *, dry_run: bool) -> None:
    """Write the files of the query's positions to a checkpoint location, the query's id last."""
    try:
        files = dict(savepoint.source_files())
        foreign = [name for name in _files_at(checkpoint) if name not in files or files[name] != checkpoint.read(name)]
        if foreign:
            raise MigrationRefused(
                f"the checkpoint location {checkpoint.location} is in use: it has {foreign[0]}, which is not from this "
                "savepoint. Nothing was changed. Set topology.checkpoint.location to a new place; or delete this one, "
                "if nothing continues there."
            )
        for name, data in () if dry_run else files.items():
            checkpoint.replace(name, data)
    except OSError as error:
        raise StateUnavailable(f"{checkpoint.location} cannot be written: {error}.") from error


def _files_at(checkpoint: Folder) -> Iterator[str]:
    """Yield the files that a run has at its checkpoint location. Any other name is yielded as it is."""
    for name in checkpoint.names(""):
        if name in ("offsets", "commits"):
            yield from (f"{name}/{batch}" for batch in checkpoint.names(name) if batch.isdigit())
        elif name == "sources":
            for source in checkpoint.names(name):
                yield from (f"{name}/{source}/{each}" for each in checkpoint.names(f"{name}/{source}"))
        elif name == "anchorbolt":  # an earlier call may have written to the history
            yield from (f"{name}/{each}" for each in checkpoint.names(name) if each != "history")
        elif not name.startswith("."):
            yield name
