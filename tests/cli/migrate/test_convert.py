"""`anchorbolt migrate convert`, as a user runs it, and as its page shows it."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tests.docs.pages import Page
from tests.migration_tools.conftest import conf_of
from tests.servers.hbase_server import HBaseServer
from tests.servers.redis_server import RedisServer
from tests.support.storm_fixtures import dump
from tests.support.storm_hbase import StormTable

run = partial(invoke, "migrate")
TASKS = ("--component", "count", "--include-checkpoint-spout")


@pytest.fixture
def place(redis_database: RedisServer) -> list[str]:
    """The options that name a Redis with a word count of Storm 1.2."""
    with redis_database.client() as client:
        for name, fields in dump("storm-1.2.4-wordcount").hashes.items():
            client.hset(name, mapping=dict(fields))
    return ["-h", redis_database.host, "-p", str(redis_database.port)]


def test_the_page_shows_what_the_command_prints(place: list[str]) -> None:
    blocks = Page("docs/migrating_from_storm.md").blocks
    typed = next(block.text for block in blocks if block.language == "sh" and "migrate convert" in block.text)
    printed = [block.text for block in blocks if block.language == "text" and "$checkpointspout-1: conv" in block.text]
    for line in typed.strip().splitlines():
        result = run(*line.split()[2:], *place)
        assert result.exit_code == 0, result.output
    assert result.stdout.strip() == printed[0].strip()


@pytest.fixture
def conf(hbase_server: HBaseServer, tmp_path: Path) -> Path:
    """The configuration of a table of HBase with a word count of Storm 1.2."""
    with closing(StormTable(hbase_server)) as table:
        for name, fields in dump("storm-1.2.4-wordcount").hashes.items():
            table.put(name, fields)
        (tmp_path / "storm.json").write_text(json.dumps(conf_of(table.provider())))
    return tmp_path / "storm.json"


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints_with_hbase(conf: Path) -> None:
    blocks = Page("docs/migrating_from_storm.md").blocks
    [typed] = [block.text for block in blocks if block.language == "sh" and "--into-table" in block.text]
    [printed] = [block.text for block in blocks if block.language == "text" and "in the table" in block.text]
    table = json.loads(conf.read_text())["topology.state.provider.config"]["tableName"]
    names = {"storm.yaml": str(conf), "storm-2": f"{table}-2"}
    given = [names.get(part, part) for part in typed.split()[2:]]
    dry = run(*given, "--dry-run")
    assert (dry.exit_code, dry.stdout.count("would be converted")) == (0, 4), dry.output
    result = run(*given)
    assert (result.exit_code, result.stdout.strip()) == (0, printed.strip().replace("storm-1 ", f"{table} "))
    again = run(*given, "--json")
    assert (again.exit_code, again.stdout.count("converted by an earlier run")) == (0, 4), again.output


@pytest.mark.slow
def test_what_is_refused_in_hbase_has_an_exit_code_and_a_reason(conf: Path, place: list[str], tmp_path: Path) -> None:
    named, into = ("--conf", str(conf)), ("--into-table", "other")
    for arguments, code, reason in (
        ((*named, *TASKS), 2, "--into-table NAME"),
        ((*named, *into, *place, *TASKS), 2, "leave out the options that name a Redis"),
        ((*into, *TASKS), 2, "not an HBase"),
        ((*named, *into), 2, "name the namespaces"),
        ((*named, "--into-table", "no table", *TASKS), 2, "tableName"),
        ((*named, *into, "--set", "topology.state.provider=redis", *TASKS), 2, ""),
        ((*named, *into, "--component", "none"), 4, "no namespace of a component 'none'"),
        ((*named, *into, "-n", "none-1"), 4, "no namespace none-1"),
        ((*named, *into, "--component", "types"), 4, "--in-topology or --outside-topology"),
    ):
        result = run("convert", "--to", "2.5", *arguments)
        assert (result.exit_code, reason in result.stderr, result.stdout) == (code, True, ""), result.output


def test_a_conversion_is_reported_undone_made_again_and_kept(place: list[str]) -> None:
    namespaces = ("-n", "count-3", "-n", "count-4", "--include-checkpoint-spout")
    done = run("convert", *place, "--to", "2.6.4", *TASKS, "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["done"], len(report["namespaces"])) == (0, True, 3)
    assert {each["content"] for one in report["namespaces"] for each in one["hashes"]} == {"storm-1.2"}
    undone = run("undo", *place, *namespaces)
    assert (undone.exit_code, undone.stdout.count("put back")) == (0, 4), undone.output
    assert run("convert", *place, "--to", "2.8", *TASKS).exit_code == 0
    discarded = run("discard-backup", *place, *namespaces)
    assert (discarded.exit_code, discarded.stdout.count("backup discarded")) == (0, 4), discarded.output
    again = run("convert", *place, "--to", "2.8", "--from", "1.2", *TASKS)
    assert (again.exit_code, again.stdout.count("in this format already")) == (0, 4), again.output


def test_a_changed_conversion_is_not_undone_and_its_backup_not_discarded(
    place: list[str], redis_database: RedisServer
) -> None:
    assert run("convert", *place, "--to", "2.8", *TASKS).exit_code == 0
    with redis_database.client() as client:
        client.hdel("count-3", client.hkeys("count-3")[0])
    for command in ("undo", "discard-backup"):
        refused = run(command, *place, "-n", "count-3")
        assert (refused.exit_code, "1 missing of 19 entries" in refused.stderr) == (4, True), refused.output
    assert run("undo", *place, "-n", "count-3", "--keep-changed").exit_code == 0


def test_what_is_refused_has_an_exit_code_and_a_reason(place: list[str]) -> None:
    for arguments, code, reason in (
        (("--to", "2.9", *TASKS), 2, "'2.9' is not a release from Storm 1.0 to 2.8"),
        (("--to", "2.8", "--from", "3.0", *TASKS), 2, "'3.0' is not a release"),
        (("--to", "2.8"), 2, "name the namespaces"),
        (("--to", "2.8", "--component", "none"), 4, "no namespace of a component 'none'"),
        (("--to", "2.8", "--from", "2.5", *TASKS), 4, "has the format of Storm 1.2, not of Storm 2.0"),
        (("--to", "2.8", "--component", "types"), 4, "--in-topology or --outside-topology"),
        (TASKS, 2, "--to"),
    ):
        result = run("convert", *place, *arguments)
        assert (result.exit_code, reason in result.stderr, result.stdout) == (code, True, ""), result.output
    dry = run("convert", *place, "--to", "2.8", "--component", "types", "--in-topology", "--dry-run")
    assert (dry.exit_code, "would be converted" in dry.stdout) == (0, True), dry.output
