"""Python's garbage collection, set up for a process that handles many small objects at once."""

import functools
import gc

_THRESHOLDS = 50_000, 20, 20  # so that a page of entries is handled between two collections


@functools.cache
def spare_imports() -> None:
    """Leave what this process has imported out of its garbage collections, and let them come less often.

    By default every page of 10,000 entries causes a collection of all objects: with what Spark and Arrow import, these
    took half of the time that a scan takes. Only for a process that is ours, such as a command or a worker of Spark.
    A second call does nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
