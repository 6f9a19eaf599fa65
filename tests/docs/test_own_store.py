"""The commands of the README that read the state."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.testing import FeederSpout, LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.docs.pages import Page
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of

SECTION = "What sets it apart"
BE_AND_NOT_OR_TO = {"A26265": "02", "A36E6F74": "01", "A26F72": "01", "A2746F": "02"}  # as msgpack


def commands_of_the_readme() -> dict[str, str]:
    [block] = [block for block in Page("README.md").blocks if block.section == SECTION]
    lines = block.text.strip().splitlines()
    assert len(lines) == 3
    return {line.split()[0]: line for line in lines}


def count_words_of_the_readme(conf: dict[str, Any]) -> None:
    names: dict[str, Any] = {"__name__": "word_count"}
    [job] = [block.text for block in Page("README.md").blocks if block.file == "word_count.py"]
    exec(job, names)
    builder = TopologyBuilder()
    builder.set_spout("sentences", FeederSpout(["sentence"], [[("to be or not to be",)]]))
    builder.set_bolt("split", names["SplitSentence"]()).shuffle_grouping("sentences")
    builder.set_bolt("count", names["WordCount"](), parallelism=2).fields_grouping("split", "word")
    assert LocalCluster().submit(builder.create_topology("word-count"), conf).await_termination(60)


def said(command: str, directory: Path) -> str:
    return subprocess.run(["sh", "-c", command], cwd=directory, check=True, capture_output=True, text=True).stdout


def test_sqlite_and_our_own_command_read_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    count_words_of_the_readme({"topology.state.provider": "sqlite"})
    commands = commands_of_the_readme()
    assert said(commands["anchorbolt"], tmp_path).split()[-1] == "2"
    if shutil.which("sqlite3"):
        # The other words are in the file of the other task.
        shown = dict(line.split("|") for line in said(commands["sqlite3"], tmp_path).splitlines())
        assert shown
        assert shown.items() <= BE_AND_NOT_OR_TO.items()


def test_redis_cli_reads_the_counts(tmp_path: Path, redis_database: RedisServer) -> None:
    count_words_of_the_readme(settings_of(redis_database))
    client = shutil.which("redis-cli")
    if client is None:
        pytest.skip("there is no redis-cli beside this Redis")
    command = commands_of_the_readme()["redis-cli"].replace("redis-cli", f"{client} -p {redis_database.port}")
    assert {r'"\xa2to"', r'"\x02"'} <= set(said(command, tmp_path).split())
