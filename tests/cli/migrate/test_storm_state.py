"""`anchorbolt migrate storm-state`: a topology of real Storm continued on Anchorbolt, as a user does it."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import count_words, invoke, options, write_conf
from tests.docs.pages import Page
from tests.migration_tools.conftest import conf_of
from tests.servers.hbase_server import HBaseServer
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of
from tests.support.storm_fixtures import dump
from tests.support.storm_hbase import StormTable

storm_state = partial(invoke, "migrate", "storm-state")


@pytest.fixture
def ends(redis_database: RedisServer, tmp_path: Path) -> list[str]:
    """The options that name a Redis with a word count of Storm 2.6, and a target."""
    with redis_database.client() as client:
        for name, fields in dump("storm-2.6.4-wordcount").hashes.items():
            client.hset(name, mapping=dict(fields))
    source = write_conf(tmp_path / "from.json", redis_database)
    target = write_conf(tmp_path / "to.json", tmp_path / "to")
    return ["--from", str(source), "--to", str(target)]


@pytest.fixture
def hbase_ends(hbase_server: HBaseServer, tmp_path: Path) -> list[str]:
    """The same with a table of HBase."""
    with closing(StormTable(hbase_server)) as table:
        for name, fields in dump("storm-2.6.4-wordcount").hashes.items():
            table.put(name, fields)
        (tmp_path / "from.json").write_text(json.dumps(conf_of(table.provider())))
    target = write_conf(tmp_path / "to.json", tmp_path / "to")
    return ["--from", str(tmp_path / "from.json"), "--to", str(target)]


@pytest.mark.parametrize("ends_of", ["ends", pytest.param("hbase_ends", marks=pytest.mark.slow)])
def test_a_word_count_of_storms_is_taken_reported_and_continued(
    ends_of: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    given = (
        *request.getfixturevalue(ends_of),
        "--topology",
        "words",
        "--component",
        "count=count",
        "--parallelism",
        "count=3",
    )
    dry = storm_state(*given, "--dry-run")
    assert (dry.exit_code, "nothing was written" in dry.stdout) == (0, True), dry.output
    assert not list((tmp_path / "to").glob("*"))
    done = storm_state(*given, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    [bolt] = report["bolts"]
    assert (bolt["storm_tasks"], bolt["tasks"]) == (["count-3", "count-4"], 3)
    assert (report["txid"], report["rolls_forward"], report["was_there"]) == (5, True, False)
    again = storm_state(*given)
    assert (again.exit_code, "earlier import" in again.stdout) == (0, True), again.output
    handle = count_words(tmp_path / "to.json", "apple zebra", parallelism=3)
    assert (handle.recovery.action, handle.recovery.txid) == ("resumed", 5)
    counts = dict(handle.state_items("count"))
    assert (len(counts), counts["apple"], counts["zebra"]) == (bolt["entries"] + 1, 113, 1)


def test_the_page_shows_what_the_command_prints(ends: list[str]) -> None:
    blocks = Page("docs/migrating_from_storm.md").blocks
    [typed] = [block.text for block in blocks if block.language == "sh" and "migrate storm-state" in block.text]
    [printed] = [block.text for block in blocks if block.language == "text" and "from Storm in" in block.text]
    configurations = {"storm.yaml": ends[1], "anchorbolt.yaml": ends[3]}
    for line in typed.replace("\\\n", " ").strip().splitlines():
        result = storm_state(*(configurations.get(part, part) for part in line.split()[3:]))
        assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1:] == printed.strip().splitlines()[1:]


def test_what_is_refused_has_an_exit_code_and_a_reason(ends: list[str], redis_database: RedisServer) -> None:
    count = ("--topology", "words", "--component", "count=count")
    sqlite = ("--from", ends[3], "--to", ends[3])
    for arguments, code, reason in (
        ((*ends, "--topology", "words", "--component", "count"), 2, "BOLT=COMPONENT"),
        ((*ends, *count, "--component", "count=types"), 2, "twice"),
        ((*ends, *count, "--parallelism", "count"), 2, "BOLT=TASKS"),
        ((*ends, *count, "--parallelism", "other=2"), 2, "parallelism of 'other'"),
        ((*ends, *count, "--enum", "Colour"), 2, "CLASS=A,B,C"),
        ((*ends, "--topology", "$words", "--component", "count=count"), 2, "reserved"),
        ((*sqlite, *count), 2, "Storm's state is in Redis or HBase"),
        ((*ends, "--topology", "words", "--component", "count=none"), 4, "no namespace of a component 'none'"),
        ((*ends, "--topology", "words", "--component", "types=types"), 4, "twice in types-8"),
    ):
        result = storm_state(*arguments)
        assert (result.exit_code, reason in result.stderr, result.stdout) == (code, True, ""), result.output
    settings = options(settings_of(redis_database), "--from-set")
    assert storm_state(*settings, "--to", ends[3], *count, "--dry-run").exit_code == 0
