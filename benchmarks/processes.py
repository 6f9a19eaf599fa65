"""Runs each side in a process and JVM of its own, so that the settings of one side do not affect another.

While one side runs, the others wait for their next call.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from benchmarks.contestant import BatchFigures, Contestant, ContestantKind, Counts, Place
from benchmarks.workloads import Workload

__all__ = ["RemoteContestant", "SideProcess"]

T = TypeVar("T")

_contestants: dict[str, Contestant] = {}
_kind: ContestantKind | None = None
_spark: SparkSession | None


class SideProcess:
    """The process of one side, for as long as the `with` block lasts."""

    def __init__(self, kind: ContestantKind, cores: int, logs: Path, *, code: Path | None = None) -> None:
        """Make the process of the contestants of a kind.

        Args:
            kind: The kind.
            cores: Cores of its Spark.
            logs: Directory of the file for what it and its Spark print.
            code: Directory with another version of the package `anchorbolt`, for the process to import.
        """
        self.name = kind.name
        self.short_name = "-".join(re.findall("[a-z0-9]+", kind.name.lower()))
        self._code = code
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(
            1, context, initializer=_start, initargs=(kind, cores, logs / f"{self.short_name}.log", code)
        )

    def __enter__(self) -> SideProcess:
        with _first_on_path(self._code):
            self._pool.submit(_nothing)  # starts the process, which gets the path of this one
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.call(_stop)
        self._pool.shutdown()

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of a module in the process, and return what it returns."""
        result: T = self._pool.submit(function, *arguments).result()
        return result


class RemoteContestant:
    """A contestant in the process of its side."""

    def __init__(self, process: SideProcess, workload: Workload, text: Path, home: Path, redis_port: int) -> None:
        """Make one there, with a directory below `home`; the other arguments are those of `Place`."""
        self.name = process.name
        self._process = process
        self._workload = workload.name
        process.call(_open, workload, Place(text, home / process.short_name, redis_port))

    def run(self) -> list[BatchFigures]:
        return self._process.call(_run, self._workload)

    def counts(self) -> Counts:
        return self._process.call(_counts, self._workload)


@contextmanager
def _first_on_path(directory: Path | None) -> Iterator[None]:
    if directory is not None:
        sys.path.insert(0, str(directory))
    yield
    if directory is not None:
        sys.path.remove(str(directory))


def _nothing() -> None:
    pass


def _start(kind: ContestantKind, cores: int, log: Path, code: Path | None) -> None:
    global _kind, _spark
    if code is not None:
        os.chdir(code)  # Spark's workers import from the current directory first
    with log.open("wb") as file:
        for descriptor in (1, 2):  # the Java machine and the workers inherit them
            os.dup2(file.fileno(), descriptor)
    _kind = kind
    _spark = kind.session(f"local[{cores}]")


def _stop() -> None:
    if _spark is not None:
        _spark.stop()


def _open(workload: Workload, place: Place) -> None:
    assert _kind is not None
    _contestants[workload.name] = _kind(_spark, workload, place)


def _run(workload: str) -> list[BatchFigures]:
    return _contestants[workload].run()


def _counts(workload: str) -> Counts:
    return _contestants[workload].counts()
