"""The command `anchorbolt ui`: shows the history of a topology on the page, until it is interrupted."""

import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Annotated

from anchorbolt.cli.command import Location, Overrides, RunsConf, option, print_line, with_exit_code
from anchorbolt.cli.exit_codes import DONE

_POLL_S = 0.5


@with_exit_code
def ui(
    place: Location = None,
    conf: RunsConf = None,
    overrides: Overrides = None,
    port: Annotated[
        int | None, option("--ui-port", metavar="PORT", help="Port of the page; 0 chooses a free one. [default: 8080]")
    ] = None,
) -> int:
    """Show the history of a topology on a page, also while another process runs it, until Ctrl-C.

    It has the checkpoints, the graph and the failures. Only the page of the run itself has the figures of tasks.
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
