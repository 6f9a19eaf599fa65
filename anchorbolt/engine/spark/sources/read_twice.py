"""Refuses a batch of which Spark would read files more than once.

For each file of a batch whose path looks like a pattern, Spark's source of files adds all files of the batch to those
that it reads. It reads each file once all the same if the option `recursiveFileLookup` is set, or if the folder has
partition columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from anchorbolt.errors import WaveFailed
from anchorbolt.util.messages import shortened

_OF_PATTERNS = frozenset("[]{}*?\\")  # as `SparkHadoopUtil.isGlobPath` has them


def check_read_once(session: SparkSession, files: Sequence[str], batch_id: int, txid: int) -> None:
    """Raise `WaveFailed` if Spark is about to read files of a batch more than once.

    Called on the thread on which Spark runs the batch.

    Args:
        session: The session.
        files: All files of the batch, as Spark logs them: with `%5B` for `[`.
        batch_id: The batch.
        txid: Its wave.
    """
    patterns = [path for path in map(unquote, files) if not _OF_PATTERNS.isdisjoint(path)]
    if not patterns or len(files) < 2:
        return
    if _reads_each_once(session):
        return
    raise WaveFailed(
        f"Spark would read files of batch {batch_id} of the source more than once: {len(patterns)} of its {len(files)} "
        f"paths have one of [ ] {{ }} * ? \\: {shortened(patterns, 300)}. Nothing of the batch is committed. Leave the "
        "files where they are, set the option recursiveFileLookup=true of the spout's source, with which Spark reads "
        "each file once, and start again. See docs/failures/source.md.",
        txid=txid,
    )


def _reads_each_once(session: SparkSession) -> bool:
    """Return True if the batch that this thread's query runs reads each file once; False if Spark does not tell."""
    try:
        query: Any = session.streams.get(session.sparkContext.getLocalProperty("sql.streaming.queryId") or "")
        plan = query._jsq.streamingQuery().lastExecution().analyzed().collectLeaves()
        relations = [plan.apply(number) for number in range(plan.length())]
        files = Counter(
            file
            for leaf in relations
            if leaf.getClass().getSimpleName() == "LogicalRelation"
            for file in leaf.relation().location().inputFiles()
        )
    except (Py4JError, TypeError, AttributeError):  # this Spark keeps it in another way, or no query runs
        return False
    return set(files.values()) == {1}
