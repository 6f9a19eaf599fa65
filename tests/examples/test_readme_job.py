"""The README's job with its state on each provider that needs a server, by `--set` alone."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.command import Command, run_arguments
from tests.examples.conftest import WORD_COUNT
from tests.support.stores import settings_of, store_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def as_options(settings: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the options that set every inner key, dotted."""
    options = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            options += as_options(value, f"{prefix}{key}.")
        else:
            options += ["--set", f"{prefix}{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return options


@pytest.mark.parametrize(
    "provider", ["redis", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("redis-cluster", "hbase"))]
)
def test_the_job_runs_on_it_and_continues_from_its_state(tmp_path: Path, provider: str) -> None:
    try:
        with store_of(provider, tmp_path / "store") as store:
            run_twice(tmp_path, settings_of(store))
    except LookupError as missing:
        pytest.skip(str(missing))


def run_twice(tmp_path: Path, settings: Mapping[str, Any]) -> None:
    texts = ["to be or not to be\n", "to do or not to do\n"]
    folder = tmp_path / "in"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
        options = as_options({**settings, "word_count.input": str(folder)})
        job = f"{WORD_COUNT / 'job.py'}:topology"
        arguments = run_arguments(job, "--until-empty", "--master", "local[2]", *options)
        command = Command(arguments, directory=tmp_path)
        try:
            assert command.end() == 0, repr(command)
        finally:
            command.close()
    rows = pq.read_table(tmp_path / "out").to_pylist()
    counts = Counter(" ".join(texts).split())
    assert sorted((row["word"], row["count"]) for row in rows) == sorted(
        (word, number) for word, count in counts.items() for number in range(1, count + 1)
    )
    assert not (tmp_path / "anchorbolt-data" / "state").exists()
