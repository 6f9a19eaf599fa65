"""Takes a savepoint of a topology: copies its namespaces into Parquet files.

The files hold the stored bytes, so nothing is lost: due times, timers, custom codecs. The files with the positions of
the query's sources are copied beside them. The manifest comes last.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

from anchorbolt.checkpoint.decision_log import RELEASED_SEQ
from anchorbolt.errors import ConfigError, MigrationRefused, StateUnavailable
from anchorbolt.files import Folder
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import check_source, source_namespaces
from anchorbolt.migration_tools.savepoints.manifest import MANIFEST, Manifest, SavedNamespace
from anchorbolt.migration_tools.savepoints.running import take_running
from anchorbolt.migration_tools.savepoints.source_files import check_sources, source_files
from anchorbolt.migration_tools.savepoints.writing import SavepointWriter, counted, parquet_files
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider

_PAGE = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def take_savepoint(
    provider: StateProvider,
    topology: str,
    prefix: str,
    checkpoint: Folder,
    place: Folder,
    name: str,
    *,
    take_fence: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Take a savepoint of a topology. Only reads the store.

    If the topology runs, its driver helps: it chooses a wave, and the savepoint has the state after this wave. No wave
    waits for it. All entries are then also written to temporary files on this machine.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        checkpoint: The checkpoint location of its runs.
        place: The folder of savepoints. The savepoint is the folder `name` in it.
        name: Letters, digits, and `._-`.
        take_fence: Do not ask a driver, although one holds the fence, because it was killed. Nothing is fenced.
        progress: Receives the progress.

    Raises:
        ConfigError: The name is not valid, or is taken.
        MigrationRefused: No driver answers, although one holds the fence; a run ended or began meanwhile; a
            transaction is open; or the store disagrees with its decision record or with the checkpoint location. An
            unfinished savepoint is no savepoint.
        StateError: The store failed; see `StateStorage`.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} cannot be the name of a savepoint. Use letters, digits, '.', '_' and '-'.")
    progress = progress or Progress()
    try:
        if place.exists(f"{name}/{MANIFEST}"):
            raise ConfigError(f"{place.location} has a savepoint {name!r} already. Give another --name, or delete it.")
        snapshot = read_topology(provider, topology, prefix, checkpoint)
        if snapshot.stored is not None and snapshot.holds_fence and not take_fence:
            return take_running(provider, snapshot, checkpoint, place, name, progress)
        check_source(snapshot, provider, with_custom_states=False, taken=take_fence)
        record = snapshot.stored
        assert record is not None, "check_source refuses a store without a record"
        check_sources(snapshot, record, checkpoint)
        place.remove_tree(name)  # of an interrupted one
        writing = SavepointWriter(place, name)
        heads = {
            **{each: snapshot.heads[each] for each in source_namespaces(snapshot)},
            snapshot.record_namespace: replace(snapshot.record_head, fence=Fence(snapshot.generation, RELEASED_SEQ)),
        }
        namespaces = {each: _saved(writing, provider, each, head, progress) for each, head in heads.items()}
        sources = tuple(writing.source(checkpoint, each) for each in source_files(checkpoint, record))
        again = read_topology(provider, topology, prefix, checkpoint)
        if (again.stored, again.record_head, again.heads) != (record, snapshot.record_head, snapshot.heads):
            raise MigrationRefused(
                f"a run wrote to {topology!r} meanwhile: {place.location}/{name} is no savepoint. Stop the run first."
            )
        return writing.end(topology, prefix, record, namespaces, sources)
    except OSError as error:
        raise StateUnavailable(f"{place.location}/{name} cannot be written: {error}.") from error


def _saved(
    writing: SavepointWriter, provider: StateProvider, namespace: str, head: NamespaceHead, progress: Progress
) -> SavedNamespace:
    with closing(provider.open(namespace)) as storage:
        progress.begin(f"saving {namespace}", storage.count())
        return writing.namespace(namespace, head, parquet_files(counted(storage.scan(page_size=_PAGE), progress)))
