"""The command `anchorbolt migrate convert`: its options and output. `migration_tools.storm_conversion` does it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from anchorbolt.cli import exit_codes
from anchorbolt.cli.command import Overrides, option
from anchorbolt.cli.migrate import RedisOptions, show_report, with_redis_options, with_result
from anchorbolt.cli.storm_options import Enums, InTopology, KeyClass, Registered, ValueClass, storm_facts
from anchorbolt.config.providers import PROVIDER_CONFIG, HBaseSettings
from anchorbolt.errors import ConfigError
from anchorbolt.storm.wrapper import Generation


@with_result
@with_redis_options
def convert(
    redis: RedisOptions,
    to: Annotated[
        str, typer.Option("--to", metavar="RELEASE", show_default=False, help="The Storm that will read the state: 2.8")
    ],
    source: Annotated[
        str | None,
        option("--from", metavar="RELEASE", help="The Storm that wrote the state: 1.2. By default the bytes show it."),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        option("--namespace", "-n", metavar="NAME", help="A namespace, <component>-<task>. May be repeated."),
    ] = None,
    components: Annotated[
        list[str] | None,
        option("--component", metavar="NAME", help="A component of Storm: all its tasks. May be repeated."),
    ] = None,
    conf: Annotated[
        Path | None,
        option("--conf", metavar="FILE", help="Configuration that names the HBase with the state, instead of a Redis."),
    ] = None,
    overrides: Overrides = None,
    into_table: Annotated[
        str | None,
        option("--into-table", metavar="NAME", help="With HBase: the table to write to, with the same column family."),
    ] = None,
    registered: Registered = None,
    key_class: KeyClass = None,
    value_class: ValueClass = None,
    enums: Enums = None,
    in_topology: InTopology = None,
) -> int:
    """Convert state in Redis or HBase to the format that another Storm reads, all of it or nothing.

    Stop the topology first. No Storm reads the state of each other release. In Redis the old data is kept as
    <namespace>_old; in HBase the new data is in another table. After an interruption, run the command again.
    """
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.storm_conversion import commands
    from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions
    from anchorbolt.state_backends.redis.storm_hashes import RedisHashes

    options = ConversionOptions(
        _generation("--to", to),
        None if source is None else _generation("--from", source),
        storm_facts(registered, key_class, value_class, enums, in_topology),
        redis.dry_run,
    )
    names = [os.fsencode(name) for name in namespace or ()]
    chosen: Any = {"components": components or (), "include_checkpoint_spout": redis.include_checkpoint_spout}
    if conf is not None or overrides or into_table is not None:
        tables = _tables(redis, conf, overrides or (), into_table)
        with shown_progress() as progress:
            report = commands.convert_rows(*tables, names, options, **chosen, progress=progress)
    else:
        with RedisHashes(redis.address()) as hashes, shown_progress() as progress:
            report = commands.convert(hashes, names, options, **chosen, progress=progress)
    show_report(report, as_json=redis.as_json)
    return exit_codes.DONE


def _tables(
    redis: RedisOptions, conf: Path | None, overrides: Sequence[str], into_table: str | None
) -> tuple[HBaseSettings, HBaseSettings]:
    """Return the table of HBase that a configuration names, and the one to write to. Raises `ConfigError`."""
    from anchorbolt.cli.places import open_store

    if replace(redis, include_checkpoint_spout=False, dry_run=False, as_json=False) != RedisOptions():
        raise ConfigError("a configuration names the store: leave out the options that name a Redis", key="--conf")
    provider, _, _ = open_store(conf, overrides)
    if not isinstance(provider, HBaseSettings):
        raise ConfigError(
            f"the configuration names {provider.describe()}, not an HBase. A Redis is named by --host and --port.",
            key=PROVIDER_CONFIG,
        )
    if into_table is None:
        raise ConfigError("name the table of HBase to write to: --into-table NAME", key="--into-table")
    return provider, replace(provider, table=into_table)


def _generation(key: str, release: str) -> Generation:
    found = Generation.of_release(release)
    if found is None:
        raise ConfigError(f"{release!r} is not a release from Storm 1.0 to 2.8, such as 1.2 or 2.6.4", key=key)
    return found
