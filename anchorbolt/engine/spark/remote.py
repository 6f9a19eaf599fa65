"""The objects that Spark unpickles on a worker. Need only the standard library; make the dependencies importable.

`shipping` sends Anchorbolt to the workers in a zip file. A folder in it holds the pure Python code of the dependencies.
A worker uses that folder only if its Python lacks one of them.
"""

import functools
import importlib.util
import pickle
import sys
from collections.abc import Iterable, Iterator
from typing import Any

# `redis` imports `async_timeout` on Python before 3.11.3. It is sent if the driver has it.
DEPENDENCIES = ("msgpack", "cloudpickle", "redis", "async_timeout", "pythonjsonlogger")
HDFS_DEPENDENCIES = ("fsspec", "requests", "urllib3", "idna", "certifi", "charset_normalizer")
DEPENDENCIES_FOLDER = "_anchorbolt_dependencies"


class RemoteStage:
    """A function for `mapInArrow`: one stage of a run.

    The plan stays pickled: Spark unpickles this object for every task, but the plan is unpickled once per process. The
    argument stays pickled: its classes may need the dependencies, which are importable only inside the call.
    """

    __name__ = "anchorbolt"  # the stage's name in Spark's UI

    def __init__(self, kind: str, run_id: str, plan: bytes, argument: Any) -> None:
        """Create a stage. `kind` and `argument` are those of `worker.run`."""
        self._kind = kind
        self._run_id = run_id
        self._plan = plan
        self._argument = pickle.dumps(argument)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run one task. Called by Spark on a worker, with the Arrow batches of its partition."""
        _make_importable()
        from anchorbolt.engine.spark import worker

        argument = pickle.loads(self._argument)  # noqa: S301 - as safe as this object, which Spark unpickles
        return worker.run(self._kind, self._run_id, self._plan, argument, batches)


class RemoteWorker:
    """A function for `mapPartitions`: a worker that stays. Its process loads neither Arrow nor pandas."""

    def __init__(self, plan: bytes, argument: Any) -> None:
        """Create it. `argument` is that of `workers.entry.run`."""
        self._plan = plan
        self._argument = pickle.dumps(argument)

    def __call__(self, rows: Iterable[Any]) -> Iterable[Any]:
        """Run the worker until the run ends. Called by Spark on a worker process."""
        list(rows)  # else Spark would not use the process again
        _make_importable()
        from anchorbolt.engine.spark.workers import entry

        entry.run(self._plan, pickle.loads(self._argument))  # noqa: S301 - as safe as this object
        return ()


@functools.cache
def _make_importable() -> None:
    """Called once per process: `find_spec` of a module that is not imported takes most of a millisecond."""
    wanted = (*DEPENDENCIES, *HDFS_DEPENDENCIES)
    if any(name not in sys.modules and importlib.util.find_spec(name) is None for name in wanted):
        archive = __file__.rpartition("/anchorbolt/")[0]
        sys.path.append(f"{archive}/{DEPENDENCIES_FOLDER}")
        importlib.invalidate_caches()
