"""The tasks of a Storm topology in a store, and what Storm would do with their state at its next start.

Storm's checkpoint spout keeps a txid and one of three states in `$checkpointspout-<task>`. When a topology starts, the
spout recovers by that state alone (`CheckPointState`, and `StatefulBoltExecutor` in each task):

- COMMITTING(t): all tasks had prepared t, and some may have committed it. Every task commits t: the entries of its
  `$prepare` replace the committed ones, and tombstones delete.
- PREPARING(t): a task may not have prepared t. Every task rolls back: `$prepare` is dropped, and t - 1 is the state.
- COMMITTED(t): nothing is open.

A task refuses to commit another txid than the last one it prepared (`RedisKeyValueState.commit`). A commit deletes
`$prepare` as its last step, so a task that had committed t may still have it; to commit it again changes nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anchorbolt.errors import MigrationRefused, StateCorrupted, StateError
from anchorbolt.migration_tools.storm_state import StormHashes, StormOptions, form_of, length_of, pages_of, part_decoder
from anchorbolt.storm.kryo.values import JavaScalar

_SPOUT = "$checkpointspout"
_STATE_KEY = "__state"
_LONGEST_TXID = 19  # digits of a Java long

Page = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class StormTask:
    """One task's namespace."""

    namespace: str
    committed: int | None  # the last txid that it committed and prepared; None if it never did
    prepared: int | None
    entries: int  # in the committed hash
    prepared_entries: int  # in `$prepare`


class StormCheckpoint(NamedTuple):
    """The state of a checkpoint spout."""

    namespace: str
    txid: int
    state: str


class Recovered(NamedTuple):
    """The outcome of Storm's recovery."""

    txid: int
    rolls_forward: bool  # whether the prepared entries count


def tasks_of_component(hashes: StormHashes, component: str) -> list[StormTask]:
    """Return the tasks of a component of Storm's, by number. Raises `StateError` if the store has none."""
    names = _numbered(hashes, component, r"(\$txid|\$prepare)?")
    if not names:
        raise StateError(
            f"{hashes.describe()} has no namespace of a component {component!r} of Storm's: it would be "
            f"{component}-<task id>. This lists the namespaces: {hashes.listing}.",
            namespace=component,
        )
    return [_task(hashes, name) for name in names]


def checkpoint_of(hashes: StormHashes, named: str | None, options: StormOptions) -> StormCheckpoint | None:
    """Return the state of the topology's checkpoint spout; None if the store has no checkpoint spout.

    `named` is its namespace; it is needed if the store has several. Raises `MigrationRefused` without it, and
    `StateError` if there is no such namespace.
    """
    found = _numbered(hashes, _SPOUT, "") if named is None else [named]
    if len(found) > 1:
        raise MigrationRefused(
            f"{hashes.describe()} has the checkpoint spouts of several topologies of Storm's: {', '.join(found)}. Name "
            "the one of this topology: --checkpoint-spout."
        )
    for name in found:
        entries = [entry for page in pages_of(hashes, name) for entry in page]
        if not entries:
            raise StateError(
                f"{hashes.describe()} has no hash {name!r}. Name the namespace of a checkpoint spout.", namespace=name
            )
        form = form_of(entries, name, options.generation)
        decode_key, decode_value = (part_decoder(form, entries, options, is_key=is_key) for is_key in (True, False))
        for field, stored in entries:
            key, value = decode_key(field).value, decode_value(stored).value
            is_state = isinstance(value, JavaScalar) and value.tag == "checkpointstate"
            if is_state and isinstance(key, JavaScalar) and key.value == _STATE_KEY:
                return StormCheckpoint(name, value.value, value.detail)
        raise StateCorrupted(
            f"{name} does not have the state of a checkpoint spout under the key {_STATE_KEY!r}. Name another "
            "namespace, or restore this one.",
            namespace=name,
        )
    return None


def recovered(tasks: Sequence[StormTask], checkpoint: StormCheckpoint | None) -> Recovered:
    """Return the transaction to which Storm's recovery would bring these tasks. Pure.

    Raises `MigrationRefused` if Storm never committed anything, or a task contradicts the checkpoint spout.
    """
    if checkpoint is None:
        return _without_checkpoint(tasks)
    name, txid, state = checkpoint
    if state == "COMMITTING":
        for task in tasks:
            if task.prepared != txid or (task.committed or 0) > txid:
                raise _contradicts(task, f"{name} is {state} {txid}")
        return Recovered(txid, rolls_forward=True)
    decided = txid - 1 if state == "PREPARING" else txid
    for task in tasks:
        is_open = state == "COMMITTED" and task.prepared_entries and task.prepared != task.committed
        if task.committed not in (None, decided) or is_open:
            raise _contradicts(task, f"{name} is {state} {txid}")
    if decided < 0:
        raise MigrationRefused(f"{name} is {state} {txid}: Storm never committed a transaction, so nothing is moved.")
    return Recovered(decided, rolls_forward=False)


def entries_of(hashes: StormHashes, task: StormTask, *, rolls_forward: bool) -> Iterator[Page]:
    """Yield the fields and values of a task after Storm's recovery, tombstones included; an entry may come twice."""
    prepare = f"{task.namespace}$prepare"
    replaces = rolls_forward and task.prepared_entries > 0
    for page in pages_of(hashes, task.namespace):
        if replaces:
            staged = hashes.fields(prepare.encode(), [field for field, _ in page])
            page = [entry for entry, other in zip(page, staged, strict=True) if other is None]
        yield page
    if replaces:
        yield from pages_of(hashes, prepare)


def _without_checkpoint(tasks: Sequence[StormTask]) -> Recovered:
    for task in tasks:
        if task.prepared_entries:
            raise MigrationRefused(
                f"{task.namespace} has prepared txid {task.prepared}, and the store has no checkpoint spout "
                f"({_SPOUT}-<task id>), which decides whether it counts. Start the topology on Storm and stop it."
            )
    txids = {task.committed for task in tasks}
    [txid] = txids if len(txids) == 1 else [None]
    if txid is None:
        at = ", ".join(f"{task.namespace} at {_shown(task.committed)}" for task in tasks)
        raise MigrationRefused(
            f"the store has no checkpoint spout ({_SPOUT}-<task id>), and the tasks are not at one txid: {at}. Start "
            "the topology on Storm and stop it."
        )
    return Recovered(txid, rolls_forward=False)


def _contradicts(task: StormTask, checkpoint: str) -> MigrationRefused:
    return MigrationRefused(
        f"{task.namespace} has committed txid {_shown(task.committed)} and prepared {_shown(task.prepared)}, but "
        f"{checkpoint}. It may be of an older deployment or of another topology: then rename it. Otherwise start the "
        "topology on Storm and stop it."
    )


def _shown(txid: int | None) -> str:
    return "none" if txid is None else str(txid)


def _numbered(hashes: StormHashes, component: str, suffix: str) -> list[str]:
    """Return the namespaces `<component>-<number>` that have one of the hashes, by number."""
    pattern = re.compile(rf"{re.escape(component)}-([0-9]+){suffix}")
    keys = (key.decode("utf-8", "replace") for key in hashes.names(f"{component}-".encode(errors="replace")))
    numbers = {match[1] for key in keys if (match := pattern.fullmatch(key))}
    return [f"{component}-{number}" for number in sorted(numbers, key=lambda text: (len(text), text))]


def _task(hashes: StormHashes, name: str) -> StormTask:
    txids = dict(entry for page in pages_of(hashes, f"{name}$txid") for entry in page)
    committed, prepared = _txid(name, txids, b"commit"), _txid(name, txids, b"prepare")
    return StormTask(name, committed, prepared, length_of(hashes, name), length_of(hashes, f"{name}$prepare"))


def _txid(name: str, txids: Mapping[bytes, bytes], field: bytes) -> int | None:
    text = txids.get(field)
    if text is None:
        return None
    if not text.isdigit() or len(text) > _LONGEST_TXID:
        raise StateCorrupted(
            f"{name}$txid has {field.decode()} {text[:40]!r}, which is not a transaction id. Restore it.",
            namespace=name,
        )
    return int(text)
