"""Takes the state of a Storm topology in Redis or HBase into a new topology of Anchorbolt.

Storm is only read, twice. The first pass converts and encodes every entry, to refuse what cannot be kept before
anything is written; the second pass stages. Between them 16 bytes of each entry are kept, its fingerprint: it shows a
key that two tasks have, and a Storm that still writes.

On the target the import is one transaction, with the txid that Storm had committed. Until its decision is written, the
store has no decision record, so it is empty for a start and for another import. After that, the next start commits it,
or the same command. The attempts are named after the fingerprints, so the command recognises its own earlier decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.errors import ConfigError, MigrationRefused
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.storm_entries import StormBolt
from anchorbolt.migration_tools.storm_import_steps import ImportTarget
from anchorbolt.migration_tools.storm_state import StormOptions, open_hashes
from anchorbolt.migration_tools.storm_tasks import (
    StormCheckpoint,
    StormTask,
    checkpoint_of,
    recovered,
    tasks_of_component,
)
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.streams.declaration import check_name
from anchorbolt.util.messages import did_you_mean


@dataclass(frozen=True)
class ImportedBolt:
    """The import of one bolt.

    Attributes:
        component: Id of the bolt.
        storm_tasks: The namespaces of its tasks on Storm.
        tasks: Its number of tasks on Anchorbolt.
        entries: Its number of entries.
    """

    component: str
    storm_tasks: tuple[str, ...]
    tasks: int
    entries: int


@dataclass(frozen=True)
class StormImportReport:
    """The result of an import, or of a dry run.

    Attributes:
        source: Description of the store with Storm's state.
        target: Description of the target.
        topology: Name of the new topology.
        txid: The last transaction of Storm, after its recovery; also that of the new topology.
        rolls_forward: Whether Storm was committing this transaction, so that the prepared entries count.
        bolts: The bolts, in the order of the arguments.
        was_there: Whether an earlier import had already decided to write this state.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    source: str
    target: str
    topology: str
    txid: int
    rolls_forward: bool
    bolts: tuple[ImportedBolt, ...]
    was_there: bool
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "bolts": [vars(each) for each in self.bolts]}


def import_storm_state(
    source: StateProvider,
    target: StateProvider,
    topology: str,
    prefix: str,
    components: Mapping[str, str],
    options: StormOptions,
    codecs: Codecs,
    *,
    parallelism: Mapping[str, int] | None = None,
    checkpoint_spout: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> StormImportReport:
    """Take the state of a stopped Storm topology into a new topology, all of it or nothing.

    The state is that of Storm's next start: if the checkpoint spout was COMMITTING, the prepared entries count, and
    prepared tombstones delete; if it was PREPARING, they do not count. Each key goes to the task that a fields grouping
    by this key chooses. A call after an interrupted import finishes it; a call after a finished one changes nothing.

    Args:
        source: The Redis, Redis Cluster or HBase with Storm's state. It is only read.
        target: The store to write to. It must have no state of the topology.
        topology: Name of the new topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        components: The component of Storm by the bolt that gets its state. All of its tasks in the source are taken.
        options: Facts from Storm's configuration.
        codecs: The codecs of the new topology.
        parallelism: The number of tasks by bolt; by default as many as on Storm.
        checkpoint_spout: Namespace of Storm's checkpoint spout, if the source has several.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        ConfigError: The source is neither Redis nor HBase, a bolt is unknown, or both stores would use the same names.
        TopologyError: A name cannot be the name of a topology or of a bolt.
        MigrationRefused: An entry cannot be read, converted or encoded; a key exists twice; a task contradicts the
            checkpoint spout; the target has other state; or Storm wrote during the import. Nothing was changed.
        Fenced: A run or another import has taken over at the target.
        StateError: A store failed, or has no such component.
    """
    parallelism, progress = parallelism or {}, progress or Progress()
    _check_arguments(source, target, topology, prefix, components, parallelism)
    with open_hashes(source) as hashes:

        def found() -> tuple[StormCheckpoint | None, dict[str, list[StormTask]]]:
            tasks = {bolt: tasks_of_component(hashes, component) for bolt, component in components.items()}
            return checkpoint_of(hashes, checkpoint_spout, options), tasks

        checkpoint, tasks = found()
        txid, rolls_forward = recovered([task for each in tasks.values() for task in each], checkpoint)
        bolts = [
            StormBolt(hashes, bolt, each, parallelism.get(bolt, len(each)), options, rolls_forward=rolls_forward)
            for bolt, each in tasks.items()
        ]
        tasks_of_bolts = {bolt.component: bolt.tasks for bolt in bolts}
        new = ImportTarget(target, topology, prefix, tasks_of_bolts, txid, codecs)
        stored = new.stored()
        survey = new.survey(bolts, stored, progress)
        if stored is None and not dry_run:
            with new.begun() as transaction:
                winners, attempt = new.stage(transaction, bolts, survey.attempt, progress)
                if (attempt, found()) != (survey.attempt, (checkpoint, tasks)):
                    raise MigrationRefused(
                        f"the state in {source.describe()} changed during the import, so nothing was changed in "
                        f"{target.describe()}. Stop the topology on Storm, and start again."
                    )
                transaction.finish(transaction.record, winners)
        elif stored is not None and stored.state.phase is Phase.COMMITTING and not dry_run:
            with new.begun() as transaction:
                new.finish(transaction, stored)
    imported = tuple(
        ImportedBolt(bolt.component, bolt.storm_tasks, bolt.tasks, count)
        for bolt, count in zip(bolts, survey.entries, strict=True)
    )
    ends = source.describe(), target.describe()
    return StormImportReport(*ends, topology, txid, rolls_forward, imported, stored is not None, dry_run)


def _check_arguments(
    source: StateProvider,
    target: StateProvider,
    topology: str,
    prefix: str,
    components: Mapping[str, str],
    parallelism: Mapping[str, int],
) -> None:
    check_name("topology", topology)
    if not components:
        raise ConfigError("name at least one bolt, and the component of Storm that has its state.")
    for bolt in components:
        check_name("component", bolt)
    for bolt, tasks in parallelism.items():
        if bolt not in components:
            raise ConfigError(
                f"the parallelism of {bolt!r} is given, but no component of Storm for it."
                f"{did_you_mean(bolt, components)}"
            )
        if tasks < 1:
            raise ConfigError(f"{bolt!r} cannot have {tasks} tasks: give at least 1.")
    if not prefix and source.describe() == target.describe():
        raise ConfigError(
            f"without topology.state.namespace.prefix, the new namespaces in {target.describe()} may have the names of "
            "Storm's. Set a prefix, or name another store.",
            key="topology.state.namespace.prefix",
        )
