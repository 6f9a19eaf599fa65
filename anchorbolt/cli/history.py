"""The commands `anchorbolt history` and `anchorbolt ui`: the latest waves, starts, ends and changes of a topology."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from anchorbolt.cli.command import Conf, Location, Overrides, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE
from anchorbolt.util.messages import counted, last_line
from anchorbolt.util.values import printable

if TYPE_CHECKING:
    from anchorbolt.observe.history.records import Change, Record

_POLL_S = 0.5
_WIDTH = 60
_PHASES = {"source": "·", "compute": "█", "prepare": "▓", "decide": "▒", "commit": "░"}


@with_exit_code
def history(
    place: Location = None,
    conf: Conf = None,
    overrides: Overrides = None,
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="Only the latest N records.")] = 40,
    only_failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Only waves with several rounds, failed messages or dead letters, and runs that failed."
        ),
    ] = False,
    slow: Annotated[
        float | None, option("--slow", min=0, metavar="MS", help="Only waves that took at least MS.")
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the time of each wave, by phase.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each record as one line of JSON, with all its fields.")
    ] = False,
) -> int:
    """Print the latest waves of a topology, with its starts and ends, while it runs or after it has ended.

    It also prints who has changed the state by a command, and what. The checkpoint location keeps the last 100 files of
    records, across drivers, and the last 1,000 changes.
    """
    from anchorbolt.cli.places import checkpoint_folder
    from anchorbolt.config.loading import load_conf
    from anchorbolt.observe.history.records import Wave, plain
    from anchorbolt.observe.history.segments import read_history

    folder = checkpoint_folder(place, load_conf(file=conf, overrides=overrides or ()).settings)
    records = list(read_history(folder))
    if only_failed:
        records = [each for each in records if each.has_failed]
    if slow is not None:
        records = [each for each in records if isinstance(each, Wave) and each.duration_ms >= slow]
    records = records[-last:]
    if as_json:
        for record in records:
            print_line(json.dumps(plain(record)))
        return DONE
    for line in plotted(records) if plot else map(line_of, records):
        print_line(line)
    if not records:
        chosen = " of this kind" if only_failed or slow is not None else ""
        sys.stderr.write(f"there are no records{chosen} in {folder.location}\n")
    return DONE


@with_exit_code
def ui(
    place: Location = None,
    conf: Conf = None,
    overrides: Overrides = None,
    port: Annotated[
        int | None, option("--ui-port", metavar="PORT", help="Port of the page; 0 chooses a free one. [default: 8080]")
    ] = None,
) -> int:
    """Show the history of a topology on a page, until Ctrl-C. Another process may run the topology.

    The page has the checkpoints, the graph and the failures. Only a run's own page has the figures of tasks.
    """
    from anchorbolt.cli.places import checkpoint_folder
    from anchorbolt.config.loading import load_conf
    from anchorbolt.observe.history.segments import read_history
    from anchorbolt.ui.server import UiServer

    port_set = [] if port is None else [f"topology.ui.port={port}"]
    settings = load_conf(file=conf, overrides=[*(overrides or ()), *port_set]).settings
    folder = checkpoint_folder(place, settings)
    server = UiServer.of_history(folder.location, partial(read_history, folder), settings)
    with suppress(KeyboardInterrupt):
        print_line(f"page: {server.address}")
        sys.stdout.flush()
        # A signal that comes just before the thread sleeps does not wake it.
        while not threading.Event().wait(_POLL_S):
            pass
    server.close()
    return DONE


def line_of(record: Record) -> str:
    """Return a record as one line."""
    from anchorbolt.observe.history.failures import first_failed
    from anchorbolt.observe.history.records import Change, End, Start

    shown = f"{_time(record)}  "
    if isinstance(record, Start):
        return f"{shown}generation {record.generation} {record.action} at txid {record.txid}"
    if isinstance(record, End):
        failure = _reason(record.failure.strip())
        why = f": {record.error or 'error'}: {printable(failure)}" if failure else ""
        return f"{shown}{(record.status or 'ended').lower()} at txid {record.txid}{why}"
    if isinstance(record, Change):
        return shown + printable(", ".join(_parts_of(record)))
    checkpoint = sum(record.phases_ms.get(name, 0) for name in ("prepare", "decide", "commit"))
    tuples = counted(sum(record.executed.values()), "tuple")
    parts = [f"wave {record.txid}: {record.duration_ms:,.0f} ms, checkpoint {checkpoint:,.0f} ms, {tuples}"]
    if record.keys_staged:
        parts.append(f"{counted(record.keys_staged, 'key')} staged")
    if record.rounds > 1:
        why = f"the first failed: {printable(record.failures[0])}" if record.failures else "to leave out what fails"
        parts.append(f"{record.rounds} rounds, all but the last in {record.failed_ms:,.0f} ms, {why}")
    if record.failed or record.dead_letters:
        counts = ((record.failed, "failed message"), (record.dead_letters, "dead letter"))
        first = first_failed(record)
        failed = " and ".join(counted(number, noun) for number, noun in counts if number)
        parts.append(f"{failed}, the first: {printable(first)}" if first else failed)
    if record.throttled:
        parts.append(f"throttled: {printable(record.throttled)}")
    return shown + ", ".join(parts)


def _parts_of(change: Change) -> Iterator[str]:
    yield f"{change.command} by {change.by} as txid {change.txid}"
    for name, (before, after) in change.tasks.items():
        yield f"{name}: {counted(before, 'task')} -> {counted(after, 'task')}"
    for verb, counts in (("put", change.put), ("deleted", change.deleted)):
        if counts:
            yield f"{verb} {', '.join(f'{count:,} in {name}' for name, count in counts.items())}"
    if change.keys:
        yield f"keys {', '.join(change.keys)}"


def _reason(text: str) -> str:
    """Return an error's text as one line: for a user's traceback, the exception and then its origin."""
    if not text.startswith("Traceback"):
        return text.partition("\n")[0]
    traceback, _, message = text.partition("\n\n")
    return ", ".join(filter(None, (last_line(traceback), message.partition("\n")[0])))


def plotted(records: Sequence[Record]) -> Iterator[str]:
    """Yield a bar for each wave, with its phases in different shades, and a line for each start and end."""
    from anchorbolt.observe.history.records import Wave

    longest = max((record.total_ms for record in records if isinstance(record, Wave)), default=0) or 1
    yield "  ".join(f"{shade} {phase}" for phase, shade in _PHASES.items())
    for record in records:
        if not isinstance(record, Wave):
            yield line_of(record)
            continue
        bar, filled = "", 0.0
        for phase, shade in _PHASES.items():
            filled += record.phases_ms.get(phase, 0) / longest * _WIDTH
            bar += shade * (round(filled) - len(bar))
        again = f"  {record.rounds} rounds" if record.rounds > 1 else ""
        yield f"{_time(record)}  {record.txid:>8}  {bar:<{_WIDTH}}  {record.total_ms:>8,.0f} ms{again}"


def _time(record: Record) -> str:
    return datetime.fromtimestamp(record.at).astimezone().isoformat(" ", "seconds")
