"""The command `anchorbolt migrate convert`: its options and output. `migration_tools.storm_conversion` does it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from anchorbolt.cli import exit_codes
from anchorbolt.cli.command import option
from anchorbolt.cli.migrate import RedisOptions, show_report, with_redis_options, with_result
from anchorbolt.cli.storm_options import Enums, InTopology, KeyClass, Registered, ValueClass, storm_facts
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
    registered: Registered = None,
    key_class: KeyClass = None,
    value_class: ValueClass = None,
    enums: Enums = None,
    in_topology: InTopology = None,
) -> int:
    """Convert state in Redis to the format that another Storm reads, all of it or nothing.

    Stop the topology first. No Storm reads the state of each other release. The old data is kept as <namespace>_old.
    After an interruption, run the command again.
    """
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.storm_conversion.commands import convert as run
    from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions
    from anchorbolt.state_backends.redis.storm_hashes import RedisHashes

    options = ConversionOptions(
        _generation("--to", to),
        None if source is None else _generation("--from", source),
        storm_facts(registered, key_class, value_class, enums, in_topology),
        redis.dry_run,
    )
    names = [os.fsencode(name) for name in namespace or ()]
    with RedisHashes(redis.address()) as hashes, shown_progress() as progress:
        report = run(
            hashes,
            names,
            options,
            components=components or (),
            include_checkpoint_spout=redis.include_checkpoint_spout,
            progress=progress,
        )
    show_report(report, as_json=redis.as_json)
    return exit_codes.DONE


def _generation(key: str, release: str) -> Generation:
    found = Generation.of_release(release)
    if found is None:
        raise ConfigError(f"{release!r} is not a release from Storm 1.0 to 2.8, such as 1.2 or 2.6.4", key=key)
    return found
