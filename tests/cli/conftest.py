"""What the command's tests share: a directory of the person who types it, with Python's imports put back afterwards."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

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
