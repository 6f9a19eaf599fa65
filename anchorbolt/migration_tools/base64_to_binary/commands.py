"""The commands of the migration as plain functions. Each works on a list of namespaces and returns a report."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from anchorbolt.errors import AnchorboltError, StateError, StateUnavailable
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.backups import Backups
from anchorbolt.migration_tools.base64_to_binary.conversion import (
    Interrupted,
    MigrationOptions,
    NamespaceResult,
    Report,
    Wrapper,
)
from anchorbolt.migration_tools.base64_to_binary.names import left_out, ours, remove_leftovers, wanted
from anchorbolt.migration_tools.base64_to_binary.namespace_migration import Migration
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import checkpoint_spouts_among
from anchorbolt.migration_tools.storm_conversion.conversion import NO_FACTS, StormFacts
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content

_NOT_MIGRATED = (
    "not asked for: unless it was migrated before, a topology forgets which transaction was open. Migrate it too, "
    "with --include-checkpoint-spout"
)
_NOT_COMPARED = (
    "not read: it was not asked for (--include-checkpoint-spout), or it has no backup, because it was not migrated or "
    "the backup was discarded. If it is not migrated, a topology forgets which transaction was open"
)
_INTERRUPTED = "the command was interrupted"


def migrate(
    hashes: RedisHashes,
    namespaces: Sequence[bytes],
    options: MigrationOptions | None = None,
    *,
    include_checkpoint_spout: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Convert namespaces from Base64 to binary, and keep the original data as `<ns>_old`.

    A refused namespace is in the report with its error, and the others are migrated. Once Redis cannot be reached or
    accepts no writes, the remaining namespaces are not tried. After any failure, run it again.

    Args:
        hashes: The Redis server or cluster.
        namespaces: Names of namespaces, without `$prepare` and `$txid`.
        options: How to migrate.
        include_checkpoint_spout: Also migrate all namespaces of checkpoint spouts.
        progress: Reports each page.

    Raises:
        ConfigError: A name is not valid for a namespace, or Redis refuses the login.
        StateUnavailable: Redis cannot be reached.
        Interrupted: Ctrl-C; it has the report so far.
    """
    options = options or MigrationOptions()
    found = ours(hashes)
    spouts = checkpoint_spouts_among(found)
    named = wanted(namespaces, spouts if include_checkpoint_spout else [])
    hashes.refuse_eviction()  # a copy of the state may fill the server
    if not options.dry_run:
        remove_leftovers(hashes, named, found)

    def one(namespace: bytes) -> NamespaceResult:
        with Migration(hashes, namespace, options, progress or Progress()) as migration:
            return migration.run()

    return _each(named, one, Report((), left_out(found, named, _NOT_MIGRATED), options.dry_run))


def verify(
    hashes: RedisHashes,
    namespaces: Sequence[bytes],
    *,
    include_checkpoint_spout: bool = False,
    wrapper: Wrapper | None = None,
    content: Content | None = None,
    progress: Progress | None = None,
) -> Report:
    """Compare `<ns>_old` with `<ns>`, entry by entry. A namespace with a difference has an error. Changes nothing.

    The values must have this `wrapper`; with None, either wrapper. `content` is the format of the backups, None to
    recognise it. The other arguments and the errors are those of `undo`.
    """
    named = (namespaces, include_checkpoint_spout, progress)
    return _on_backups(hashes, *named, lambda each: each.verify(wrapper), content=content)


def undo(
    hashes: RedisHashes,
    namespaces: Sequence[bytes],
    *,
    include_checkpoint_spout: bool = False,
    keep_changed: bool = False,
    facts: StormFacts = NO_FACTS,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Rename `<ns>_old` to `<ns>`. Compare the converted hash with the backup first, then delete it.

    With `include_checkpoint_spout`, also undo the namespaces of checkpoint spouts that have a backup. With
    `keep_changed`, keep a hash that is not the conversion of its backup as `<ns>_undone`, instead of refusing. With
    `dry_run`, do everything except writing. `facts` are those of the conversion to another Storm's format. The other
    arguments and the errors are those of `migrate`.
    """
    named = (namespaces, include_checkpoint_spout, progress)
    undone = partial(Backups.undo, keep_changed=keep_changed)
    return _on_backups(hashes, *named, undone, facts=facts, dry_run=dry_run, is_undo=True)


def discard_backup(
    hashes: RedisHashes,
    namespaces: Sequence[bytes],
    *,
    include_checkpoint_spout: bool = False,
    facts: StormFacts = NO_FACTS,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Delete `<ns>_old` if `<ns>` is still its conversion. The arguments and errors are those of `undo`."""
    named = (namespaces, include_checkpoint_spout, progress)
    return _on_backups(hashes, *named, Backups.discard, facts=facts, dry_run=dry_run)


def _on_backups(
    hashes: RedisHashes,
    namespaces: Sequence[bytes],
    include_checkpoint_spout: bool,
    progress: Progress | None,
    act: Callable[[Backups], NamespaceResult],
    *,
    content: Content | None = None,
    facts: StormFacts = NO_FACTS,
    dry_run: bool = False,
    is_undo: bool = False,
) -> Report:
    found = ours(hashes)
    of = {key.removesuffix(b"_old") for key in found if key.endswith(b"_old")}
    named = wanted(namespaces, checkpoint_spouts_among(of) if include_checkpoint_spout else [])
    if is_undo and not dry_run:
        remove_leftovers(hashes, named, found)

    def one(namespace: bytes) -> NamespaceResult:
        with Backups(hashes, namespace, progress or Progress(), content, facts, dry_run=dry_run) as backups:
            return act(backups)

    return _each(named, one, Report((), () if is_undo else left_out(found, named, _NOT_COMPARED), dry_run))


def _each(namespaces: Sequence[bytes], one: Callable[[bytes], NamespaceResult], report: Report) -> Report:
    """Run a command on each namespace and add the results to the report."""
    results: list[NamespaceResult] = []
    given_up = ""
    for namespace in namespaces:
        name = shown(namespace)
        try:
            if given_up:
                raise StateError(f"{name} was not tried, because {given_up}", namespace=name)
            results.append(one(namespace))
        except AnchorboltError as error:
            results.append(NamespaceResult(name, error=error))
            if isinstance(error, StateUnavailable):
                given_up = "Redis could not be used any more"
        except KeyboardInterrupt:
            given_up = _INTERRUPTED
            message = f"{name} was interrupted: each of its hashes is as it was, or done as a whole. Run it again"
            results.append(NamespaceResult(name, error=StateError(message, namespace=name)))
    finished = replace(report, namespaces=tuple(results))
    if given_up == _INTERRUPTED:
        raise Interrupted(finished)
    return finished
