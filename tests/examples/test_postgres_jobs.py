"""Whole jobs with their state in the example's PostgreSQL: the README's, and one that is killed again and again."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.testing import CrashRunner, Fault, FaultPoint
from tests.cli.command import Command, run_arguments
from tests.crash.job import write_waves
from tests.crash.outcome import differences
from tests.examples.conftest import EXAMPLES, ROOT, PostgresProviderOf
from tests.support.postgres_server import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAME = "postgres_provider.PostgresStateProvider"


def environment_of(server: PostgresServer) -> dict[str, str]:
    """Return the environment of a driver: where the provider's module is, and the password."""
    return {"PYTHONPATH": os.pathsep.join([str(ROOT), str(EXAMPLES)]), "STATE_PASSWORD": server.password}


def test_the_job_of_the_readme_runs_on_it_by_set_alone(
    tmp_path: Path, postgres_server: PostgresServer, postgres_provider: Any
) -> None:
    settings = {
        "topology.state.provider": NAME,
        "topology.state.provider.config.host": postgres_server.host,
        "topology.state.provider.config.port": postgres_server.port,
        "topology.state.provider.config.password_env": "STATE_PASSWORD",
        "topology.state.namespace.prefix": "readme",
    }
    job = f"{EXAMPLES / 'word_count' / 'job.py'}:topology"
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command = Command(
        run_arguments(job, "--until-empty", "--master", "local[2]", *options),
        directory=tmp_path,
        env=environment_of(postgres_server),
    )
    try:
        assert command.end() == 0, repr(command)
    finally:
        command.close()
    assert postgres_server.password not in command.out + command.err
    encoding = EntryEncoding("word-count", MsgpackCodec(), MsgpackCodec())
    counts: dict[str, int] = {}
    for namespace in postgres_provider.namespaces("readme:count-"):
        storage = postgres_provider.open(namespace)
        for page in storage.scan():
            for key, data in page:
                word = encoding.key_from(key)
                counts[word] = encoding.value_from(word, encoding.cached_value(word, data))
        storage.close()
    text = "".join(path.read_text() for path in (EXAMPLES / "word_count" / "in").iterdir())
    assert counts == Counter(text.split())


def test_a_killed_job_ends_with_equal_state(
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_provider_of: PostgresProviderOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run"
    waves = write_waves(folder, 6, large=3)
    conf = {
        "topology.checkpoint.location": str(folder / "checkpoint"),
        "topology.state.provider": NAME,
        "topology.state.provider.config": {
            "host": postgres_server.host,
            "port": postgres_server.port,
            "schema": "killed",
            "password_env": "STATE_PASSWORD",
        },
    }
    environment = environment_of(postgres_server)
    arguments = ["--master", "local[2]"]
    runner = CrashRunner("tests.crash.job:topology", folder, conf=conf, arguments=arguments, environment=environment)
    report = runner.run(
        Fault(FaultPoint.SEALED, component="count", txid=1),
        Fault(FaultPoint.ROUND_ENDED, txid=2),
        Fault(FaultPoint.DECIDED, txid=3),
        Fault(FaultPoint.NAMESPACE_COMMITTED, txid=4),
    )
    assert report.struck == report.faults
    monkeypatch.setenv("STATE_PASSWORD", postgres_server.password)
    assert differences(folder, conf, waves) == []
