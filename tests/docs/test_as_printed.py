"""Pages work as printed: tests save their files, type their commands, and see what the pages show."""

import ast
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.command import Command
from tests.docs.followed import FOLLOWED
from tests.docs.pages import ROOT, Page
from tests.servers.postgres_server import PostgresServer
from tests.servers.redis_server import RedisServer
from tests.servers.server_process import free_port
from tests.support.spark_jvm import environment
from tests.support.storm_fixtures import dump

pytestmark = [pytest.mark.thorough, pytest.mark.slow, pytest.mark.timeout(1200)]

Follow = Callable[..., str]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the person types; empty at first."""
    place = tmp_path / "quickstart"
    place.mkdir()
    return place


@pytest.fixture
def follow(directory: Path, tmp_path: Path) -> Iterator[Follow]:
    """Save the files of a page, type each block of its commands in a new shell, and return what they showed.

    `FOLLOWED` says which sections are left out. `instead` has what a test cannot take as printed. A command that fails
    ends the test, after which what is left of a shell is killed.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    # The command of this checkout, whether it is installed or not; `python` is on the path already (tests/conftest.py).
    (programs / "anchorbolt").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anchorbolt "$@"\n')
    (programs / "anchorbolt").chmod(0o755)
    # A page shows Spark's UI among the first lines; the other tests run without it.
    with_ui = environment({"spark.ui.enabled": "true"})
    started: list[Command] = []

    def run(name: str, *, instead: Mapping[str, str] | None = None) -> str:
        page, followed = Page(name), FOLLOWED[name]
        assert page.save_files(directory) == list(followed.files)
        for script in page.commands(followed.without):
            for printed, typed in (instead or {}).items():
                script = script.replace(printed, typed)
            shell = ["bash", "-e", "-c", f'PATH="{programs}:$PATH"\n{script}']
            started.append(Command(shell, directory=directory, env=with_ui))
            assert started[-1].end() == 0, repr(started[-1])
        seen = "".join(command.out for command in started)
        assert page.missing_in(seen, followed.without) == [], seen
        assert name != "README.md" or not any(command.err for command in started), repr(started)
        return seen

    yield run
    for command in started:
        command.close()


def test_the_readme(directory: Path, follow: Follow) -> None:
    assert "1 passed" in follow("README.md")
    rows = sorted(map(tuple, map(dict.values, pq.read_table(directory / "out").to_pylist())))
    assert rows == [("be", 1), ("be", 2), ("not", 1), ("or", 1), ("to", 1), ("to", 2)]
    assert (directory / "anchorbolt-data").is_dir()


@pytest.mark.usefixtures("redis_program")
def test_the_quickstart_with_kill_9_and_redis(follow: Follow) -> None:
    seen = follow("docs/quickstart.md", instead={"6380": str(free_port())})
    totals = re.search(r"equal: True (\{.+\})", seen)
    assert totals is not None, seen
    in_redis = dict(re.findall(r'^"(ann|bob|eve)"\n(\d+)$', seen, re.MULTILINE))
    assert {name: int(total) for name, total in in_redis.items()} == ast.literal_eval(totals[1])


def test_the_page_about_testing_with_real_kills(follow: Follow) -> None:
    follow("docs/testing.md")


def test_the_page_about_reliability(follow: Follow) -> None:
    follow("docs/reliability.md")


def test_the_page_about_transactional_topologies(follow: Follow) -> None:
    follow("docs/transactional.md")


@pytest.mark.usefixtures("redis_program")
def test_the_example_of_the_global_count_with_kill_9(directory: Path, follow: Follow) -> None:
    (directory / "examples").symlink_to(ROOT / "examples")
    follow("examples/global_count/README.md", instead={"6380": str(free_port())})


def test_the_example_of_words_in_two_databases_with_kill_9(directory: Path, follow: Follow) -> None:
    (directory / "examples").symlink_to(ROOT / "examples")
    follow("examples/transactional_words/README.md")


@pytest.mark.parametrize("example", ["batch_sums", "order_join"])
def test_the_examples_that_ack_late(example: str, directory: Path, follow: Follow) -> None:
    (directory / "examples").symlink_to(ROOT / "examples")
    follow(f"examples/{example}/README.md")


def test_the_page_for_authors_of_providers(
    directory: Path, follow: Follow, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "examples" / "postgres_provider", directory / "postgres_provider")
    monkeypatch.setenv("PGPORT", str(postgres_server.port))
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    seen = follow("docs/custom_provider.md")
    assert "failed" not in seen


def test_the_migration_guide_on_state_that_storm_wrote(follow: Follow, redis_database: RedisServer) -> None:
    before, after = dump("storm-1.1.0-wordcount").hashes, dump("storm-1.2.4-wordcount").hashes
    place = f"-h {redis_database.host} -p {redis_database.port} "
    with redis_database.client() as client:
        for key, entries in before.items():
            client.hset(key, mapping=dict(entries))
        instead = {"-n count-3": f"{place}-n count-3", "redis-cli ": f"redis-cli {place}"}
        follow("docs/migrating_from_storm.md", instead=instead)
        assert {key.decode(): client.hgetall(key) for key in client.scan_iter()} == {
            **after,
            "types-8": before["types-8"],  # the page leaves it out
        }
