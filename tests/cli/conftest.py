"""What the command's tests share: a directory of the person who types it, with Python's imports put back afterwards."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from anchorbolt.cli.main import app
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.spouts.feeder import FeederSpout
from tests.engine.jobs import word_count
from tests.support.stores import Store, settings_of

WriteFiles = Callable[[dict[str, str]], Path]

BUILD = """
    from anchorbolt.bolts import BaseBasicBolt
    from anchorbolt.spouts.feeder import FeederSpout
    from anchorbolt.topology import TopologyBuilder

    class Drop(BaseBasicBolt):
        def execute(self, tup, collector):
            pass

    def build(name="dropping"):
        builder = TopologyBuilder()
        builder.set_spout("numbers", FeederSpout(["number"]))
        builder.set_bolt("drop", Drop()).shuffle_grouping("numbers")
        return builder.create_topology(name)
"""


def invoke(*arguments: str, stdin: str = "", **env: str) -> Result:
    """Run the command `anchorbolt` in this process."""
    return CliRunner().invoke(app, arguments, input=stdin, env=env)


def write_conf(path: Path, store: Store, **more: str) -> Path:
    """Write the configuration of a run on a store."""
    checkpoint = {"topology.checkpoint.location": str(path.parent / "checkpoint")}
    path.write_text(json.dumps({**settings_of(store), **checkpoint, **more}))
    return path


def count_words(conf: Path, *sentences: str, parallelism: int = 1) -> RunHandle:
    """Run the word count `words` with this configuration until it ends."""
    spout = FeederSpout(["sentence"], [[(sentence,)] for sentence in sentences])
    topology = word_count(spout, name="words", parallelism=parallelism)
    handle = LocalCluster().submit(topology, json.loads(conf.read_text()))
    assert handle.await_termination(60)
    return handle


def options(settings: dict[str, Any], option: str = "--set") -> list[str]:
    """Return the arguments of a command that give it these settings."""
    return [part for key, value in settings.items() for part in (option, f"{key}={json.dumps(value)}")]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory of the test, empty; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__spec__", "")):
            del sys.modules[name]


@pytest.fixture
def write(here: Path) -> WriteFiles:
    """Write files below the current directory, by path; their text is dedented."""

    def write_files(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = here / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return here

    return write_files
