"""Runs of this folder's job that a test accompanies."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.runs import AccompaniedRun
from tests.support.stores import Store

AccompanyRun = Callable[..., AccompaniedRun]


@pytest.fixture
def accompany(tmp_path: Path) -> Iterator[AccompanyRun]:
    """Make the run of a test: `accompany(store, **options)`, without a store on SQLite; it is ended after the test."""
    runs: list[AccompaniedRun] = []

    def make(store: Store | None = None, **options: Any) -> AccompaniedRun:
        runs.append(AccompaniedRun(tmp_path, store or tmp_path / "run" / "state", **options))
        return runs[-1]

    yield make
    for run in runs:
        run.close()
