"""The command `anchorbolt state import`. It does not start Spark."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from anchorbolt.cli.command import Conf, Json, Overrides, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE
from anchorbolt.cli.state import app
from anchorbolt.cli.state.changes import DryRun, KeyFunction, TakeFence
from anchorbolt.cli.state.recorded import in_history


@app.command("import")
@with_exit_code
@in_history
def import_(
    topology: Annotated[str, typer.Argument(metavar="TOPOLOGY", help="The topology's name.")],
    component: Annotated[str, typer.Argument(metavar="COMPONENT", help="The stateful bolt that gets the entries.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="One entry a line, as `state scan --json` prints them.")],
    conf: Conf = None,
    overrides: Overrides = None,
    replaces: Annotated[
        bool, typer.Option("--replace", help="Delete the entries of the bolt that FILE does not have.")
    ] = False,
    key_function: KeyFunction = None,
    take_fence: TakeFence = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Put the entries of a file into the state of a stateful bolt, in one transaction. Stop the topology first.

    Every line is checked before anything is changed. If the command is interrupted, run it again.
    """
    from anchorbolt.cli.places import open_store
    from anchorbolt.cli.work_progress import shown_progress
    from anchorbolt.migration_tools.importing.importing import import_entries
    from anchorbolt.migration_tools.rescaling import key_functions_of

    provider, settings, codecs = open_store(conf, overrides or ())
    with shown_progress() as progress:
        report = import_entries(
            provider,
            topology,
            settings.namespace_prefix_of(topology),
            component,
            file,
            codecs,
            now=int(time.time() * 1000),
            replaces=replaces,
            key_functions=key_functions_of(key_function),
            take_fence=take_fence,
            dry_run=dry_run,
            progress=progress,
        )
    if as_json:
        print_line(json.dumps(report.to_content()))
        return DONE
    expired = f", without {report.expired:,} that have expired" if report.expired else ""
    instead = f", instead of {report.removed:,}" if replaces else ""
    what = f"{report.entries:,} entries of {file}{expired}{instead}"
    if report.txid is None:
        print_line(f"{what}: there is nothing to do")
    elif dry_run:
        print_line(f"dry run: nothing was written. {what} would be txid {report.txid} in {report.store}")
    else:
        print_line(f"{what} are in {component}, as txid {report.txid} in {report.store}")
    return DONE
