"""Runs of this folder's job that a test accompanies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.runs import AccompaniedRun

AccompanyRun = Callable[..., AccompaniedRun]


@pytest.fixture
def accompany(tmp_path: Path) -> Iterator[AccompanyRun]:
    """Make the run of a test: `accompany(provider, config, **options)`, see `AccompaniedRun`; ended after the test."""
    runs: list[AccompaniedRun] = []

    def make(*arguments: object, **options: object) -> AccompaniedRun:
        runs.append(AccompaniedRun(tmp_path, *arguments, **options))  # type: ignore[arg-type]
        return runs[-1]

    yield make
    for run in runs:
        run.close()
