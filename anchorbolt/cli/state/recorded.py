"""Adds the changes that a command has made to the history at the checkpoint location."""

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from anchorbolt.errors import AnchorboltError


def in_history(command: Callable[..., int]) -> Callable[..., int]:
    """Convert a command that changes the state of the topology `topology`: the history then has the change."""

    @functools.wraps(command)
    def run(**given: Any) -> int:
        code = command(**given)
        if not given["dry_run"]:
            add_to_history(given["topology"], given["conf"], given["overrides"] or ())
        return code

    return run


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
        if folder.exists(""):
            with closing(provider.open(record_namespace(settings.namespace_prefix_of(topology)))) as storage:
                keep_changes(folder, DecisionLog(storage).changes())
            return
    except (AnchorboltError, OSError) as error:
        problem = str(error)
    sys.stderr.write(
        f"note: the history at {location} does not show the change yet: {problem}. The next start of the topology "
        "adds it.\n"
    )
