"""What Spark unpickles on a worker first. Needs the standard library only, and makes the rest importable.

Anchorbolt reaches the workers as a zip file (see `shipping`), in which the pure Python parts of its dependencies lie
in a folder of their own. They are used only where the worker's Python has no installed ones.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from typing import Any

DEPENDENCIES = ("msgpack", "cloudpickle", "redis")
DEPENDENCIES_FOLDER = "_anchorbolt_dependencies"


class RemoteStage:
    """A function for `mapInArrow`: one stage of a run.

    The plan travels pickled, and is unpickled once a process, because Spark unpickles this object for every task.
    """

    __name__ = "anchorbolt"  # Spark names the stage in its UI by it

    def __init__(self, kind: str, run_id: str, plan: bytes, argument: Any) -> None:
        """Make a stage.

        Args:
            kind: Name of a function of the module `worker`.
            run_id: Id of the run that `plan` belongs to.
            plan: The pickled `ExecutionPlan`.
            argument: Handed to the function, beside the plan.
        """
        self._kind = kind
        self._run_id = run_id
        self._plan = plan
        self._argument = argument

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Run one task of the stage; called by Spark on a worker, with the Arrow batches of its partition."""
        _make_importable()
        from anchorbolt.engine.spark import worker

        return worker.run(self._kind, self._run_id, self._plan, self._argument, batches)


@functools.cache
def _make_importable() -> None:
    """Once a process: to look for a module that is not imported takes a good part of a millisecond."""
    if any(name not in sys.modules and importlib.util.find_spec(name) is None for name in DEPENDENCIES):
        archive = __file__.rpartition("/anchorbolt/")[0]
        sys.path.append(f"{archive}/{DEPENDENCIES_FOLDER}")
        importlib.invalidate_caches()
