"""The command `anchorbolt ui`: shows the history of a topology on the page, until it is interrupted."""

import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from anchorbolt.cli.command import option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE


@with_exit_code
def ui(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[LOCATION]",
            show_default=False,
            help="The checkpoint location of the runs, as `anchorbolt run` prints it. Without it, "
            "topology.checkpoint.location of the configuration.",
        ),
    ] = None,
    conf: Annotated[Path | None, option("--conf", metavar="FILE", help="Configuration of the runs.")] = None,
    overrides: Annotated[
        list[str] | None, option("--set", metavar="KEY=VALUE", help="Set one key, overriding the file.")
    ] = None,
    port: Annotated[
        int | None, option("--ui-port", metavar="PORT", help="Port of the page; 0 chooses a free one. [default: 8080]")
    ] = None,
) -> int:
    """Show the history of a topology on a page, also while another process runs it, until Ctrl-C.

    It has the checkpoints, the graph and the failures. Only the page of the run itself has the figures of tasks.
    """
    from anchorbolt.cli.places import checkpoint_folder
    from anchorbolt.config.loading import load_conf
    from anchorbolt.engine.history.segments import read_history
    from anchorbolt.ui.server import UiServer

    port_set = [] if port is None else [f"topology.ui.port={port}"]
    settings = load_conf(file=conf, overrides=[*(overrides or ()), *port_set]).settings
    folder = checkpoint_folder(place, settings)
    server = UiServer.of_history(folder.location, partial(read_history, folder), settings)
    print_line(f"page: {server.address}")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        threading.Event().wait()
    server.close()
    return DONE
