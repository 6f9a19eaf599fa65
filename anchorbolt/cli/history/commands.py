"""The command `anchorbolt history`: prints the latest waves of a topology, and its starts and ends."""

import sys
from typing import Annotated

import typer

from anchorbolt.cli.command import Location, Overrides, RunsConf, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE


@with_exit_code
def history(
    place: Location = None,
    conf: RunsConf = None,
    overrides: Overrides = None,
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="So many of the latest.")] = 40,
    only_failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Only waves with several rounds, failed messages or dead letters, and runs that failed."
        ),
    ] = False,
    slow: Annotated[
        float | None, option("--slow", min=0, metavar="MS", help="Only waves that took at least so long.")
    ] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the time of each wave, by phase.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each as a JSON object on one line, with all its fields.")
    ] = False,
) -> int:
    """Print the latest waves of a topology, with its starts and ends, also while it runs and after it has ended.

    The last 100 files of them are kept at the checkpoint location, across drivers.
    """
    from anchorbolt.cli.history.text import line_of, plotted
    from anchorbolt.cli.places import checkpoint_folder
    from anchorbolt.config.loading import load_conf
    from anchorbolt.observe.history.records import Wave, encoded
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
            print_line(encoded(record).decode().rstrip())
        return DONE
    for line in plotted(records) if plot else map(line_of, records):
        print_line(line)
    if not records:
        chosen = " of this kind" if only_failed or slow is not None else ""
        sys.stderr.write(f"there are no records{chosen} in {folder.location}\n")
    return DONE
