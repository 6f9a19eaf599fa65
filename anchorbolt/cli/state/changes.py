"""The commands `anchorbolt state …` that change the state of a stopped topology, in one transaction each.

None of them starts Spark.
"""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from anchorbolt.cli.command import Conf, Json, Overrides, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE, KEY_ABSENT
from anchorbolt.cli.state import app
from anchorbolt.cli.state.recorded import in_history
from anchorbolt.errors import ConfigError, UnsupportedValue
from anchorbolt.util.times import NEVER, positive_ms
from anchorbolt.util.values import as_text, key_from_text, value_from_text

TakeFence = Annotated[
    bool, typer.Option("--take-fence", help="Take the fence from the run that holds it; if alive, it ends with Fenced.")
]
Task = Annotated[
    int | None,
    option(
        min=0, metavar="N", help="The task that has the key, or is to have it; by default the task of the key's hash."
    ),
]
KeyFunction = Annotated[
    str | None,
    option(
        metavar="FUNCTION",
        help="What returns the value by which a key of the state was grouped: 'key', 'key[0]', or module:function. "
        "By default the first two are tried.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, and write nothing.")]
_TOPOLOGY = typer.Argument(metavar="TOPOLOGY", help="The topology's name.")
_COMPONENT = typer.Argument(metavar="COMPONENT", help="The stateful bolt that has the state.")


@app.command()
@with_exit_code
@in_history
def rename(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    component: Annotated[str, typer.Argument(metavar="OLD_ID", help="The stateful bolt that has the state.")],
    new_id: Annotated[str, typer.Argument(metavar="NEW_ID", help="Its new id, which has no state yet.")],
    conf: Conf = None,
    overrides: Overrides = None,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Give the state of a renamed stateful bolt to its new id, in one transaction. Stop the topology first.

    If the command is interrupted, run it again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import rename_lines
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.renaming import rename_state

    provider, settings, _ = open_store(conf, overrides or ())
    prefix = settings.namespace_prefix_of(topology)
    with shown_progress() as progress:
        report = rename_state(
            provider, topology, prefix, component, new_id, take_fence=take_fence, dry_run=dry_run, progress=progress
        )
    print_line(json.dumps(report.to_content()) if as_json else "\n".join(rename_lines(report)))
    return DONE


@app.command()
@with_exit_code
@in_history
def ttl(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    component: Annotated[str, typer.Argument(metavar="COMPONENT", help="The stateful bolt that has the state.")],
    duration: Annotated[
        str,
        typer.Argument(metavar="TTL", help='How long the entries live from now: "30 d", "12 h"; "never" to keep them.'),
    ],
    conf: Conf = None,
    overrides: Overrides = None,
    every_entry: Annotated[bool, typer.Option("--all", help="Also replace the TTLs that entries have.")] = False,
    with_timers: Annotated[
        bool,
        typer.Option("--with-timers", help="Also for a bolt with timers or event time, if its entries are no windows."),
    ] = False,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Give the entries of a stateful bolt that have no TTL one, in one transaction. Stop the topology first.

    If the command is interrupted, run it again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import ttl_lines
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.giving_ttl import give_ttl

    try:
        ttl_ms = None if duration == NEVER else positive_ms(duration)
    except ValueError as error:
        raise ConfigError(f"TTL: {error}. Give a duration, or {NEVER!r}.") from None
    provider, settings, _ = open_store(conf, overrides or ())
    with shown_progress() as progress:
        report = give_ttl(
            provider,
            topology,
            settings.namespace_prefix_of(topology),
            component,
            ttl_ms,
            now=int(time.time() * 1000),
            every_entry=every_entry,
            with_timers=with_timers,
            take_fence=take_fence,
            dry_run=dry_run,
            progress=progress,
        )
    print_line(json.dumps(report.to_content()) if as_json else "\n".join(ttl_lines(report)))
    return DONE


@app.command()
@with_exit_code
@in_history
def rescale(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    bolts: Annotated[
        list[str], typer.Argument(metavar="BOLT=TASKS...", help="A stateful bolt and its new parallelism, as count=8.")
    ],
    conf: Conf = None,
    overrides: Overrides = None,
    key_function: KeyFunction = None,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Give stateful bolts another number of tasks: move each key to its task, in one transaction.

    Stop the topology first, and start it with the new parallelism afterwards. If the command is interrupted, run it
    again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import rescale_lines
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.rescaling import key_functions_of, rescale_state

    parallelism = numbers_of_tasks(bolts)
    provider, settings, codecs = open_store(conf, overrides or ())
    with shown_progress() as progress:
        report = rescale_state(
            provider,
            topology,
            settings.namespace_prefix_of(topology),
            parallelism,
            codecs,
            key_functions=key_functions_of(key_function),
            take_fence=take_fence,
            dry_run=dry_run,
            progress=progress,
        )
    print_line(json.dumps(report.to_content()) if as_json else "\n".join(rescale_lines(report)))
    return DONE


def numbers_of_tasks(texts: Iterable[str]) -> dict[str, int]:
    """Return the number of tasks by bolt in arguments `BOLT=TASKS`."""
    found: dict[str, int] = {}
    for text in texts:
        bolt, equals, tasks = text.partition("=")
        if not (bolt and equals and tasks.isdecimal() and int(tasks)):
            raise ConfigError(f"{text!r} is not of the form BOLT=TASKS, as count=8, with at least 1 task.")
        if bolt in found:
            raise ConfigError(f"{bolt!r} is named twice, with {found[bolt]} and {tasks} tasks. Name each bolt once.")
        found[bolt] = int(tasks)
    return found


@app.command()
@with_exit_code
@in_history
def put(
    topology: Annotated[str, _TOPOLOGY],
    component: Annotated[str, _COMPONENT],
    key: Annotated[str, typer.Argument(metavar="KEY", help="As in `state get`.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="JSON, a Python literal, or plain text. A list stays a list.")
    ],
    conf: Conf = None,
    overrides: Overrides = None,
    ttl: Annotated[
        str | None, option(metavar="TTL", help='How long the entry lives from now: "30 d"; by default it stays.')
    ] = None,
    task: Task = None,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Put one value into the state of a stateful bolt, in one transaction. Stop the topology first.

    Prints the old value. If the command is interrupted, run it again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import repair_content, repair_lines
    from anchorbolt.migration_tools.repairing import put_entry

    try:
        ttl_ms = None if ttl is None else positive_ms(ttl)
    except ValueError as error:
        raise ConfigError(f"--ttl: {error}. Give a duration, as '12 h'.") from None
    provider, settings, codecs = open_store(conf, overrides or ())
    new = value_from_text(value)
    with _wrong_values():
        report = put_entry(
            provider,
            topology,
            settings.namespace_prefix_of(topology),
            component,
            key_from_text(key),
            new,
            codecs,
            now=int(time.time() * 1000),
            ttl_ms=ttl_ms,
            task=task,
            take_fence=take_fence,
            dry_run=dry_run,
        )
    lines = repair_lines(report, f" -> {as_text(new)}")
    print_line(json.dumps(repair_content(report)) if as_json else "\n".join(lines))
    return DONE


@app.command()
@with_exit_code
@in_history
def delete(
    topology: Annotated[str, _TOPOLOGY],
    component: Annotated[str, _COMPONENT],
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="As in `state get`.")],
    conf: Conf = None,
    overrides: Overrides = None,
    task: Task = None,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Delete some keys from the state of a stateful bolt, in one transaction. Stop the topology first.

    Prints the old values; exit code 1 if a key is absent. If the command is interrupted, run it again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.state.text import repair_content, repair_lines
    from anchorbolt.migration_tools.repairing import delete_entries

    provider, settings, codecs = open_store(conf, overrides or ())
    with _wrong_values():
        report = delete_entries(
            provider,
            topology,
            settings.namespace_prefix_of(topology),
            component,
            list(map(key_from_text, keys)),
            codecs,
            now=int(time.time() * 1000),
            task=task,
            take_fence=take_fence,
            dry_run=dry_run,
        )
    print_line(json.dumps(repair_content(report)) if as_json else "\n".join(repair_lines(report, "")))
    return KEY_ABSENT if any(each.before.value is None for each in report.entries) else DONE


@contextmanager
def _wrong_values() -> Iterator[None]:
    """Raise `ConfigError` for an argument that cannot be a key or a value: it is a wrong argument."""
    try:
        yield
    except UnsupportedValue as error:
        raise ConfigError(error.message) from error
