"""Finds out which of many remote files do not exist, with few requests and few calls through py4j."""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.sql import SparkSession

from anchorbolt.files.hadoop.hadoop_errors import hadoop_errors
from anchorbolt.files.hadoop.jvm import Hadoop

_MOST_ASKED_EACH = 16


def missing_files(session: SparkSession, uris: Iterable[str]) -> list[str]:
    """Return the files that do not exist. Raises `OSError` if a file system does not answer.

    If many files are in one folder, that folder is listed once, and the list stays in the JVM.

    Args:
        session: Its Hadoop configuration is used.
        uris: The files in Spark's log format: with `%20` for a space.
    """
    hadoop = Hadoop(session)
    by_folder: dict[str, list[str]] = {}
    for uri in uris:
        by_folder.setdefault(uri.rpartition("/")[0], []).append(uri)
    gone: list[str] = []
    for folder, files in by_folder.items():
        paths = [unquote(each) for each in files]
        with hadoop_errors():
            fs = hadoop.file_system(paths[0])
            if len(paths) <= _MOST_ASKED_EACH:
                gone += [path for path in paths if not fs.exists(hadoop.path(path))]
            else:
                gone += _missing_in(hadoop, fs, unquote(folder), paths)
    return gone


def _missing_in(hadoop: Hadoop, fs: Any, folder: str, paths: Sequence[str]) -> list[str]:
    try:
        with hadoop_errors():
            there = hadoop.listed(fs.listStatus(hadoop.path(folder)))
    except FileNotFoundError:
        return list(paths)
    return hadoop.without(paths, there)
