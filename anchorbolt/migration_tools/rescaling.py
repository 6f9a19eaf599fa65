"""Gives stateful bolts of a stopped topology another number of tasks: see `anchorbolt.maintenance`."""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from anchorbolt.maintenance.key_placement import KEY_FUNCTIONS, KeyFunction
from anchorbolt.maintenance.rescaling import Rescaled, Rescaling
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs, key_codec
from anchorbolt.migration_tools.stopped_topology import begun, read_stopped
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.util.imports import load_function


@dataclass(frozen=True)
class RescaleReport:
    """The result of a change of the numbers of tasks, or of a dry run.

    Attributes:
        store: Description of the store.
        bolts: The change of each bolt; none for a bolt that has this number of tasks already.
        txid: The transaction that moved the entries, or would move them; None if nothing is to be changed.
        is_dry_run: Whether this was a dry run, which writes nothing.
    """

    store: str
    bolts: tuple[Rescaled, ...]
    txid: int | None
    is_dry_run: bool

    def to_content(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**vars(self), "bolts": [vars(each) for each in self.bolts]}


def rescale_state(
    provider: StateProvider,
    topology: str,
    prefix: str,
    parallelism: Mapping[str, int],
    codecs: Codecs,
    *,
    key_functions: Mapping[str, KeyFunction] | None = None,
    take_fence: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> RescaleReport:
    """Divide the state of some bolts among another number of tasks, in one transaction.

    A start of the topology then needs the new parallelism. All keys are read first: each must be in the task to which
    the hash of its grouping value sends it. Nothing is changed unless they all are.

    Args:
        provider: The store.
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        parallelism: The new number of tasks by bolt.
        codecs: The configured codecs.
        key_functions: Functions that return the grouping value of a key, by name; by default the key itself, or its
            first item, whichever agrees with all keys.
        take_fence: Continue even if a run holds the fence: a run that is alive ends with `Fenced` at its next wave, and
            a killed run no longer blocks the command.
        dry_run: Make all checks, and write nothing.
        progress: Receives the progress.

    Raises:
        MigrationRefused: A run is alive, a transaction is open or a batch may be half committed; a bolt has no state, a
            custom one, or is not grouped by fields; or its keys do not prove how they are placed. Nothing was changed.
        Fenced: A run has started meanwhile.
        StateError: The store failed; see `StateStorage`.
    """
    snapshot, record = read_stopped(provider, topology, prefix, taken=take_fence, dry_run=dry_run)

    def codec_of(namespace: str, header: str) -> Any:
        return key_codec(namespace, header, codecs)

    rescaling = Rescaling(record, prefix, parallelism, codec_of, key_functions or KEY_FUNCTIONS, progress)
    if not rescaling.bolts:
        return RescaleReport(provider.describe(), (), None, dry_run)
    with ExitStack() as stack:
        names = [name for name in rescaling.namespaces if name in snapshot.heads]
        storages = {name: stack.enter_context(closing(provider.open(name))) for name in names}
        bolts = tuple(rescaling.survey(storages, snapshot.heads))
    if not dry_run:
        with begun(provider, snapshot, record, rescaling.namespaces, command="rescale") as transaction:
            rescaling.move(transaction)
    return RescaleReport(provider.describe(), bolts, record.txid + 1, dry_run)


def key_functions_of(name: str | None, option: str = "--key-function") -> Mapping[str, KeyFunction]:
    """Return the function that an option names, `module:function` or one of `KEY_FUNCTIONS`; without a name, these.

    Raises `ConfigError` if there is no such function.
    """
    return KEY_FUNCTIONS if name is None else {name: KEY_FUNCTIONS.get(name) or load_function(name, option)}
