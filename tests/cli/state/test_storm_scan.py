"""`anchorbolt state scan --codec storm-kryo`: what Storm wrote to a real Redis, against what it is stated to hold."""

import json
from contextlib import closing
from typing import Any

import pytest
import redis
from typer.testing import Result

from tests.cli.conftest import invoke, options
from tests.migration_tools.conftest import conf_of
from tests.migration_tools.storm_data import Entries, storm_1_0, storm_1_1, words
from tests.servers.hbase_server import HBaseServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of
from tests.support.storm_fixtures import Dump, dumps, holds_object
from tests.support.storm_hbase import StormTable

COLOURS = ("--enum", "anchorfix.Colour=RED,GREEN,BLUE")
COPIES = [each for each in dumps() if not each.shared]


def scan(settings: dict[str, Any], name: str, *more: str) -> Result:
    return invoke("state", "scan", name, "--codec", "storm-kryo", *options(settings), *more)


def load(client: Any, dump: Dump) -> None:
    for name, fields in dump.hashes.items():
        client.hset(name, mapping=fields)


@pytest.fixture
def loaded(request: pytest.FixtureRequest, redis_database: RedisServer) -> dict[str, Any]:
    """The settings of a Redis with the dump that the test is parametrized with, indirectly."""
    with redis_database.client() as client:
        load(client, request.param)
    return settings_of(redis_database)


def as_set(pairs: list[list[Any]]) -> set[str]:
    return {json.dumps(pair, sort_keys=True) for pair in pairs}


@pytest.mark.parametrize(("loaded", "dump"), [(each, each) for each in COPIES], ids=str, indirect=["loaded"])
def test_every_namespace_of_a_dump_is_shown_as_it_is_stated(loaded: dict[str, Any], dump: Dump) -> None:
    for name, expected in dump.expected.items():
        config = expected.get("provider_config", {})
        classes = [("--key-class", "keyClass"), ("--value-class", "valueClass")]
        named = [part for option, key in classes if config.get(key) for part in (option, config[key])]
        for given in ([], named) if named else ([],):
            result = scan(loaded, name, "--json", "--storm", dump.generation.value, *COLOURS, *given)
            assert result.exit_code == 0, (name, result.output)
            rows = [json.loads(line) for line in result.stdout.splitlines()]
            for prepared, pairs in ((False, expected["entries"]), (True, expected["prepare"] or [])):
                some = [row for row in rows if row.get("prepared", False) is prepared]
                assert len(some) == len(pairs), name
                problems = [text for row in some for key, text in row.items() if key.endswith("_problem")]
                shown = [[row["key"], row["value"]] for row in some if not {"key_problem", "value_problem"} & {*row}]
                assert as_set(shown) <= as_set(pairs), name
                if holds_object(pairs):
                    assert any("anchorfix" in problem for problem in problems)
                elif config:
                    assert all("Name the" in problem for problem in problems), (name, problems)
                else:
                    assert not problems, (name, problems)


MIXED = [each for each in COPIES if "mixed-1" in each.expected]


@pytest.mark.parametrize(("loaded", "dump"), [(each, each) for each in MIXED], ids=str, indirect=["loaded"])
def test_it_is_found_out_which_storm_wrote_and_the_txids_are_told(loaded: dict[str, Any], dump: Dump) -> None:
    result = scan(loaded, "mixed-1")
    assert result.exit_code == 0, result.output
    assert f"written by {dump.generation.label}" in result.stderr
    assert ("Base64" in result.stderr) is dump.base64
    assert "$txid: commit '" in result.stderr


def test_a_class_of_the_users_by_its_name_puts_no_other_value_in_doubt(redis_database: RedisServer) -> None:
    def wrapped(payload: bytes) -> bytes:
        return b"\x0c\x01\x01\x00[\xc2\x01" + bytes([len(payload) + 1]) + payload

    entries = {
        b"\x03\x01\x82a": wrapped(b"\x0c\x01\x03\x01\x82x"),  # Optional.of("x")
        b"\x03\x01\x82b": wrapped(b"\x0c\x01\x01\x00com.acme.\xd8\x01\x02"),  # Optional.of(a com.acme.X)
    }
    with redis_database.client() as client:
        client.hset("o-1", mapping=entries)
    result = scan(settings_of(redis_database), "o-1", "--storm", "2.0")
    assert result.exit_code == 0, result.output
    lines = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert "Optional" in lines["'a'"], lines
    assert "com.acme.X" in lines["'b'"], lines


@pytest.mark.parametrize("loaded", [each for each in MIXED if each.generation.value == "2.0"], indirect=True)
def test_what_cannot_be_read_is_named_and_shown_as_bytes(loaded: dict[str, Any]) -> None:
    result = scan(loaded, "pojo-1")
    assert result.exit_code == 0
    assert "anchorfix." in result.stdout
    assert "b'" in result.stdout


@pytest.mark.parametrize(("storm", "entries"), [("1.0", storm_1_0(words(9))), ("1.1", storm_1_1(words(9)))])
def test_one_damaged_entry_leaves_the_others_readable_where_the_storm_is_named(
    redis_database: RedisServer, storm: str, entries: Entries
) -> None:
    with redis_database.client() as client:
        client.hset("words-1", mapping={**entries, b"AwFkYW1hZ2Vk!!": b"Ag=="})
    assert scan(settings_of(redis_database), "words-1").exit_code == 4
    result = scan(settings_of(redis_database), "words-1", "--storm", storm, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    problems = [row["key_problem"] for row in rows if "key_problem" in row]
    assert problems == ["not the Base64 text that the other entries are"]
    assert sorted(row["value"]["v"] for row in rows if "key_problem" not in row) == list("012345678")


def test_storms_hashes_in_a_cluster_are_read(empty_redis_cluster: RedisCluster) -> None:
    dump = next(each for each in COPIES if each.name.endswith("wordcount") and each.generation.value == "2.6")
    host, _, port = empty_redis_cluster.nodes[0].partition(":")
    client = redis.RedisCluster(host=host, port=int(port))
    try:
        load(client, dump)
    finally:
        client.close()
    name = next(name for name, expected in dump.expected.items() if expected["entries"])
    rows = [json.loads(line) for line in scan(settings_of(empty_redis_cluster), name, "--json").stdout.splitlines()]
    committed = [[row["key"], row["value"]] for row in rows if "prepared" not in row]
    assert as_set(committed) == as_set(dump.expected[name]["entries"])


def test_what_is_no_hash_of_storms_is_refused(redis_database: RedisServer, tmp_path: Any) -> None:
    settings = settings_of(redis_database)
    with redis_database.client() as client:
        client.set("text", "x")
        client.hset("mine", "a", "b")
    assert (scan(settings, "none").exit_code, scan(settings, "text").exit_code) == (4, 4)
    result = scan(settings, "not-utf-8\udcff")
    assert (result.exit_code, "is not UTF-8" in result.stderr) == (2, True)
    result = scan(settings, "mine")
    assert (result.exit_code, "do not show which Storm wrote it" in result.stderr) == (4, True)
    sqlite = {"topology.state.provider": "sqlite"}
    assert scan(sqlite, "mine").exit_code == 2
    assert scan(settings, "mine", "--enum", "Colour").exit_code == 2


@pytest.mark.slow
def test_state_in_hbase_is_shown_as_in_redis(hbase_server: HBaseServer, redis_database: RedisServer) -> None:
    dump = next(each for each in COPIES if each.name == "storm-2.4.0-wordcount")
    with redis_database.client() as client, closing(StormTable(hbase_server)) as table:
        load(client, dump)
        for name, fields in dump.hashes.items():
            table.put(name, fields)
        for name in dump.expected:
            shown = [scan(each, name, "--json") for each in (settings_of(redis_database), conf_of(table.provider()))]
            assert [each.exit_code for each in shown] == [0, 0], shown[1].output
            of_redis, of_hbase = (set(each.stdout.splitlines()) for each in shown)
            assert of_hbase == of_redis
        missing = scan(conf_of(table.provider()), "count-9")
        assert (missing.exit_code, "count-9$txid" in missing.stderr) == (4, True), missing.output
