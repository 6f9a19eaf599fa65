"""Whole jobs: the README's with its state on each provider that needs a server, and one killed on PostgreSQL."""

import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.testing import FaultPoint, Victim
from tests.cli.command import ROOT, Command, run_arguments
from tests.crash.runs import kill_at
from tests.examples.conftest import EXAMPLES, WORD_COUNT
from tests.servers.postgres_server import PostgresServer
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
    "provider", [pytest.param(name, marks=pytest.mark.thorough) for name in ("redis", "redis-cluster", "hbase")]
)
def test_the_readmes_job_runs_on_it_by_set_alone_and_continues_from_its_state(tmp_path: Path, provider: str) -> None:
    try:
        with store_of(provider, tmp_path / "store") as store:
            run_twice(tmp_path, settings_of(store))
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def postgres_settings(
    postgres_server: PostgresServer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Settings of a store on the session's PostgreSQL; processes find the provider's module, and the password."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(EXAMPLES)]))
    monkeypatch.setenv("STATE_PASSWORD", postgres_server.password)
    return {
        "topology.state.provider": "postgres_provider.PostgresStateProvider",
        "topology.state.provider.config": {
            "host": postgres_server.host,
            "port": postgres_server.port,
            "schema": request.function.__name__[:60],
            "password_env": "STATE_PASSWORD",
        },
    }


def test_the_readmes_job_runs_on_postgres(
    tmp_path: Path, postgres_settings: dict[str, Any], postgres_server: PostgresServer
) -> None:
    printed = run_twice(tmp_path, postgres_settings)
    assert postgres_server.password not in printed


def run_twice(folder: Path, settings: Mapping[str, Any]) -> str:
    """Run the job on one text and then on another; return what it printed."""
    texts = ["to be or not to be\n", "to do or not to do\n"]
    (folder / "in").mkdir()
    printed = ""
    for number, text in enumerate(texts):
        (folder / "in" / f"{number}.txt").write_text(text)
        options = as_options({**settings, "word_count.input": str(folder / "in")})
        job = f"{WORD_COUNT / 'job.py'}:topology"
        arguments = run_arguments(job, "--until-empty", "--master", "local[2]", *options)
        env = {"PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
        with closing(Command(arguments, directory=folder, env=env)) as command:
            assert (command.end(), command.err) == (0, ""), repr(command)
        printed += command.out
    rows = pq.read_table(folder / "out").to_pylist()
    counts = Counter(" ".join(texts).split())
    assert sorted((row["word"], row["count"]) for row in rows) == sorted(
        (word, number) for word, count in counts.items() for number in range(1, count + 1)
    )
    assert not (folder / "anchorbolt-data" / "state").exists()
    return printed


def test_a_job_killed_on_postgres_ends_with_equal_state(tmp_path: Path, postgres_settings: dict[str, Any]) -> None:
    points = [FaultPoint.SEALED, FaultPoint.ROUND_ENDED, FaultPoint.DECIDED, FaultPoint.NAMESPACE_COMMITTED]
    assert kill_at(tmp_path / "run", postgres_settings, points, Victim.HERE, large=3).wrong == []
