"""Adds the changes that a command has made to the history at the checkpoint location."""

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from anchorbolt.errors import AnchorboltError
from anchorbolt.files import Folder


def in_history(command: Callable[..., int]) -> Callable[..., int]:
    """Convert a command that changes the state of the topology `topology`: the history then has the change."""

    @functools.wraps(command)
    def run(**given: Any) -> int:
        code = command(**given)
        if not given["dry_run"]:
            add_to_history(given["topology"], given["conf"], given["overrides"] or ())
        return code

    return run


def owner_of(folder: Folder, topology: str) -> str:
    """Return the topology that has run at a checkpoint location; `topology` if none has."""
    from anchorbolt.checkpoint.decision import DecisionRecord
    from anchorbolt.checkpoint.decision_log import FolderCopy

    data = FolderCopy(folder).read()
    return topology if data is None else DecisionRecord.decode(data, folder.location).topology or topology


def add_to_history(topology: str, conf: Path | None, overrides: Sequence[str]) -> None:
    """Copy the records of the changes that the store keeps, unless the history has them.

    They are durable already: if the checkpoint location cannot be written, a note says so, and the next start of the
    topology copies them.
    """
    from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
    from anchorbolt.cli.places import open_place, open_store
    from anchorbolt.observe.history.segments import keep_changes

    provider, settings, _ = open_store(conf, overrides)
    location = settings.checkpoint_location_of(topology)
    try:
        folder, problem = open_place(location), "it does not exist on this machine"
        if (owner := owner_of(folder, topology)) != topology:
            problem = f"it is that of {owner}"
        elif folder.exists(""):
            with closing(provider.open(record_namespace(settings.namespace_prefix_of(topology)))) as storage:
                keep_changes(folder, DecisionLog(storage).changes())
            return
    except (AnchorboltError, OSError) as error:
        problem = str(error)
    sys.stderr.write(
        f"note: the history at {location} does not show the change yet: {problem}. The next start of the topology "
        "adds it.\n"
    )
