"""The README's job with its state on each provider that needs a server, by `--set` alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.cli.command import Command, run_arguments
from tests.conftest import StartHBase, StartRedis, StartRedisCluster
from tests.crash.stores import config_of, config_of_cluster, config_of_hbase
from tests.examples.conftest import WORD_COUNT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def redis_config(start_redis: StartRedis) -> dict[str, Any]:
    return config_of(start_redis())


@pytest.fixture
def redis_cluster_config(start_redis_cluster: StartRedisCluster) -> dict[str, Any]:
    return config_of_cluster(start_redis_cluster())


@pytest.fixture
def hbase_config(start_hbase: StartHBase) -> dict[str, Any]:
    return config_of_hbase(start_hbase())


def as_settings(config: Mapping[str, Any], prefix: str) -> list[str]:
    """Return the options that set every inner key, dotted."""
    options = []
    for key, value in config.items():
        if isinstance(value, Mapping):
            options += as_settings(value, f"{prefix}.{key}")
        else:
            options += ["--set", f"{prefix}.{key}={json.dumps(value)}"]
    return options


@pytest.mark.parametrize("provider", ["redis", "redis-cluster", "hbase"])
def test_the_job_runs_on_it_and_goes_on_from_its_state(
    tmp_path: Path, request: pytest.FixtureRequest, provider: str
) -> None:
    config = request.getfixturevalue(f"{provider.replace('-', '_')}_config")
    texts = ["to be or not to be\n", "to do or not to do\n"]
    folder = tmp_path / "in"
    folder.mkdir()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
        settings = [
            *("--set", f"topology.state.provider={provider}", "--set", f"word_count.input={folder}"),
            *as_settings(config, "topology.state.provider.config"),
        ]
        job = f"{WORD_COUNT / 'job.py'}:topology"
        arguments = run_arguments(job, "--until-empty", "--master", "local[2]", *settings)
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
