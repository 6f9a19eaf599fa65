"""Finds the files of a batch that hold text which is not UTF-8, after a row of it was refused."""

import logging
import re
from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as spark_functions

_log = logging.getLogger("anchorbolt.engine")

_MOST = 3  # files that are named
_GLOB = re.compile(r"([\[\]{}*?\\])")


def files_with_undecoded_text(session: SparkSession, files: Sequence[str]) -> list[str]:
    """Return the first of these files of which a line is not UTF-8; empty if none can be found.

    Files of another format than text have no lines, and are seldom found.
    """
    if not files:
        return []
    paths = [_GLOB.sub(r"\\\1", unquote(file)) for file in files]
    try:
        lines = session.read.text(paths).select("value", spark_functions.input_file_name().alias("file"))
        bad = lines.where(~spark_functions.is_valid_utf8("value")).select("file").distinct().limit(_MOST)
        return sorted(unquote(row["file"]) for row in bad.collect())
    except PySparkException as error:
        _log.info("the files of the batch cannot be searched for text that is not UTF-8: %s", error)
        return []
