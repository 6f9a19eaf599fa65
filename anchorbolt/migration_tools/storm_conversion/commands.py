"""Converts the state of a topology of Storm's, all of it or nothing, and reports it."""

from collections.abc import Sequence
from dataclasses import replace

from anchorbolt.config.providers import HBaseSettings
from anchorbolt.errors import ConfigError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.conversion import NamespaceResult, Report
from anchorbolt.migration_tools.base64_to_binary.names import left_out, ours, remove_leftovers, wanted
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import backup_of, checkpoint_spouts_among, hashes_of
from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions
from anchorbolt.migration_tools.storm_conversion.namespace_conversion import NamespaceConversion
from anchorbolt.migration_tools.storm_state import StormHashes
from anchorbolt.migration_tools.storm_tasks import tasks_of_component
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes

_NOT_CONVERTED = (
    "not asked for: unless it was converted before, a topology forgets which transaction was open. Convert it too, "
    "with --include-checkpoint-spout"
)


def convert(
    hashes: RedisHashes,
    namespaces: Sequence[bytes],
    options: ConversionOptions,
    *,
    components: Sequence[str] = (),
    include_checkpoint_spout: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Convert namespaces to the format of another Storm, and keep the original hashes as `<ns>_old`.

    All entries of all namespaces are converted and written beside their hashes before the first hash is replaced. On a
    single server one transaction replaces all of them; in a cluster, one for each hash. After any failure, run it
    again.

    Args:
        hashes: The Redis server or cluster.
        namespaces: Names of namespaces, without `$prepare` and `$txid`.
        options: What to convert to.
        components: Components of Storm: all their tasks are converted.
        include_checkpoint_spout: Also convert all namespaces of checkpoint spouts.
        progress: Reports each page.

    Raises:
        ConfigError: A name is not valid for a namespace, or Redis refuses the login.
        MigrationRefused: An entry cannot be converted. Nothing was changed.
        StateError: A namespace does not exist, has another backup, or changed meanwhile; or Redis failed.
    """
    progress = progress or Progress()
    found = ours(hashes)
    named = _named(hashes, namespaces, components, found if include_checkpoint_spout else ())
    hashes.refuse_eviction()  # a copy of the state may fill the server
    if not options.dry_run:
        remove_leftovers(hashes, named, found)
    results: list[NamespaceResult] = []
    groups = _groups(hashes, named)
    if len(groups) > 1 and not options.dry_run:
        for group in groups:
            with NamespaceConversion(hashes, group, replace(options, dry_run=True), progress) as check:
                check.run()
    for group in groups:
        with NamespaceConversion(hashes, group, options, progress) as conversion:
            results += conversion.run()
    return Report(tuple(results), left_out(found, named, _NOT_CONVERTED), options.dry_run)


def convert_rows(
    source: HBaseSettings,
    target: HBaseSettings,
    namespaces: Sequence[bytes],
    options: ConversionOptions,
    *,
    components: Sequence[str] = (),
    include_checkpoint_spout: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Convert namespaces in a table of HBase to the format of another Storm, into another table.

    The source is only read. All entries are converted before the first one is written, and compared with the written
    ones afterwards. After any failure, run it again.

    Args:
        source: The table with Storm's state.
        target: The table to write to. It must have no other entries of these namespaces.
        namespaces: Names of namespaces, without `$prepare` and `$txid`.
        options: What to convert to.
        components: Components of Storm: all their tasks are converted.
        include_checkpoint_spout: Also convert all namespaces of checkpoint spouts.
        progress: Reports each page.

    Raises:
        ConfigError: A name is not valid, there is no such table, or the target's Storm keeps no state in HBase.
        MigrationRefused: An entry cannot be converted. Nothing was changed.
        StateError: A namespace does not exist, the target has other entries, the source changed meanwhile; or HBase
            failed.
    """
    # Its packages may not be installed, and Redis does not need them.
    from anchorbolt.migration_tools.storm_conversion.row_conversion import RowConversion
    from anchorbolt.state_backends.hbase.storm_rows import StormRows

    progress = progress or Progress()
    if options.target.writes_base64:
        raise ConfigError(f"{options.target.label} keeps no state in HBase: name Storm 1.2 or a later one", key="--to")
    if (source.table, source.column_family) == (target.table, target.column_family):
        raise ConfigError(f"{source.table!r} is the table of the source: name another one", key="--into-table")
    with StormRows(source) as old, StormRows(target) as new:
        found = list(old.names(b"$checkpointspout-"))
        named = _named(old, namespaces, components, found if include_checkpoint_spout else ())
        conversions = [RowConversion(old, new, each, options, progress) for each in named]
        has_table = new.exists()
        for conversion in conversions:
            conversion.check(has_table=has_table)
        if not options.dry_run:
            new.create()
            for conversion in conversions:
                conversion.write()
            for conversion in conversions:
                conversion.verify()
    results = tuple(conversion.result() for conversion in conversions)
    return Report(results, left_out(found, named, _NOT_CONVERTED), options.dry_run)


def _named(
    hashes: StormHashes, namespaces: Sequence[bytes], components: Sequence[str], spouts: Sequence[bytes]
) -> Sequence[bytes]:
    """Return the namespaces of a command; `spouts` are names of hashes, of checkpoint spouts among others."""
    of_components = [task.namespace.encode() for each in components for task in tasks_of_component(hashes, each)]
    return wanted([*namespaces, *of_components], checkpoint_spouts_among(spouts))


def _groups(hashes: RedisHashes, namespaces: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Return the namespaces that are converted together."""
    keys = [key for namespace in namespaces for key in hashes_of(namespace)]
    together = hashes.together([*keys, *map(backup_of, keys)])
    return [namespaces] if together else [[namespace] for namespace in namespaces]
