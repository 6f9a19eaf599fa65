"""How many files wait for a query. Spark's file source tells nobody, but it keeps the rest of its latest listing.

Its field `unreadFiles` is private. It holds at most `maxCachedFiles` files, by default 10,000; and none if fewer than a
fifth of a batch are left (`discardCachedInputRatio`), or if a batch takes all files that there are. In a run that ends
when its sources are empty, Spark lists the files once, and this field is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger("anchorbolt.engine")

_CLASS = "FileStreamSource"
_UNREAD = "unreadFiles"
_LISTED_ONCE = "allFilesForTriggerAvailableNow"
_has_failed = False


def waiting_files(query: StreamingQuery) -> Sequence[int | None]:
    """Return how many files wait, source by source; None for another source than files, or if Spark does not keep them.

    Empty if this version of Spark keeps them in another way.
    """
    global _has_failed
    if _has_failed:
        return ()
    try:
        sources: Any = query._jsq.streamingQuery().sources()
        return [_files_of(sources.apply(number)) for number in range(sources.size())]
    except (Py4JError, TypeError) as error:  # TypeError: what is called is not there
        _has_failed = True
        _log.info("the files that wait are not told: %s", str(error).partition("\n")[0])
        return ()


def _files_of(source: Any) -> int | None:
    kind = source.getClass()
    if kind.getSimpleName() != _CLASS or _private(source, _LISTED_ONCE) is not None:
        return None
    files = _private(source, _UNREAD)
    return 0 if files is None else int(files.size())


def _private(source: Any, name: str) -> Any:
    field = source.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(source)
