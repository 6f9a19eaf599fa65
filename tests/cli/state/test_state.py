"""`anchorbolt state …`: what is printed, the exit codes, and that nothing else is started or written."""

import json
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing.conformance.base import committed, staged
from tests.cli.command import Command
from tests.cli.conftest import count_words, invoke, write_conf

NAME = "words"
COUNT = f"{NAME}:count-0"
CONF = ("--conf", "conf.json")
SECOND: dict[str, Any] = {"fence": Fence(1, 50), "txid": 2, "base": 1, "codec": "keys msgpack/2, values msgpack/1"}


@pytest.fixture
def provider(here: Path) -> SqliteStateProvider:
    """The state of a word count that has ended; its configuration is in the current directory."""
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    return SqliteStateProvider(str(here / "state"))


def commit_more(provider: SqliteStateProvider, count: int) -> None:
    """Commit so many entries more."""
    with closing(provider.open(COUNT)) as storage:
        items = [(b"\xce%s" % number.to_bytes(4, "big"), b"\x01") for number in range(count)]
        committed(storage, items, **SECOND)


state = partial(invoke, "state")


def lines(result: Result) -> list[Any]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_namespaces_are_listed(provider: SqliteStateProvider) -> None:
    found = lines(state("namespaces", *CONF, "--json", "--count"))
    assert [(each["namespace"], each["committed"], each["keys"]) for each in found] == [
        (f"{NAME}:$checkpointspout-0", -1, 1),
        (COUNT, 1, 3),
    ]
    text = state("namespaces", *CONF, "--topology", NAME)
    assert f"{NAME}:count-0             committed txid 1, keys msgpack/2, values msgpack/1" in text.stdout
    assert f"{NAME}:$checkpointspout-0  decision record" in text.stdout
    assert state("namespaces", *CONF, "--prefix", "other").stdout == ""
    assert lines(state("namespaces", *CONF, "--topology", "other", "--json")) == []
    assert state("namespaces", *CONF, "--topology", NAME, "--prefix", "w").exit_code == 2


def test_keys_are_got_and_an_absent_one_gives_exit_code_1(provider: SqliteStateProvider) -> None:
    assert lines(state("get", *CONF, COUNT, "a", "c", "--json")) == [
        {"key": "a", "stored_key": "a161", "value": 2},
        {"key": "c", "stored_key": "a163", "value": 1},
    ]
    result = state("get", *CONF, COUNT, "a", "z")
    assert (result.exit_code, result.stdout) == (1, "'a': 2\n'z': absent\n")
    result = state("get", *CONF, COUNT, "7", "--json")
    assert (result.exit_code, json.loads(result.stdout)["absent"]) == (1, True)
    assert state("get", *CONF, COUNT, "--hex", "a161").stdout == "'a': 2\n"
    result = state("get", *CONF, COUNT, "{'a': 7}")
    assert (result.exit_code, "must not be mutable" in result.stderr) == (2, True)
    with closing(provider.open("other-0")) as storage:
        storage.claim()
    assert state("get", *CONF, "other-0", "a").stdout == "'a': absent\n"


def test_a_key_of_a_topologys_bolt_is_found_in_its_task(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b c d e f g a", parallelism=3)
    found = lines(state("get", NAME, "count", *"abcdefg", *CONF, "--json"))
    assert [(each["key"], each["value"]) for each in found] == [(key, 1 + (key == "a")) for key in "abcdefg"]
    assert {each["namespace"] for each in found} == {f"{NAME}:count-{index}" for index in range(3)}
    text = state("get", NAME, "count", "a", "z", *CONF)
    assert text.stdout == "'a': 2\n'z': absent\n"
    assert (text.exit_code, "a is in words:count-" in text.stderr) == (1, True)
    stored = found[3]["stored_key"]
    assert lines(state("get", NAME, "count", "--hex", stored, *CONF, "--json"))[0]["key"] == "d"
    for wrong in ((NAME, "other", "a"), ("other", "count", "a")):
        assert state("get", *wrong, *CONF).exit_code == 4


def test_a_bolt_is_scanned_in_all_of_its_tasks(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b c d e f g a", parallelism=3)
    found = lines(state("scan", NAME, "count", *CONF, "--json"))
    assert {each["key"]: each["value"] for each in found} == {key: 1 + (key == "a") for key in "abcdefg"}
    assert len(lines(state("scan", NAME, "count", *CONF, "--json", "--limit", "5"))) == 5
    assert state("scan", NAME, "cuont", *CONF).exit_code == 4
    assert state("scan", NAME, "count", *CONF, "--attempt", "x").exit_code == 2


def test_entries_are_scanned_as_many_as_are_asked_for(provider: SqliteStateProvider) -> None:
    assert state("scan", *CONF, COUNT).stdout == "'a': 2\n'b': 1\n'c': 1\n"
    assert len(lines(state("scan", *CONF, COUNT, "--json", "--limit", "2"))) == 2
    with closing(provider.open(COUNT)) as storage:
        attempt = staged(storage, [(b"\xa1d", b"\x07")], **SECOND)
    assert "'d': 7\n" in state("scan", *CONF, COUNT, "--attempt", attempt).stdout
    assert "'d': 7\n" not in state("scan", *CONF, COUNT).stdout
    result = state("scan", *CONF, COUNT, "--storm", "1.2")
    assert (result.exit_code, "--codec storm-kryo" in result.stderr) == (2, True)


def test_what_is_not_there_gives_exit_code_4_and_the_nearest_name(provider: SqliteStateProvider) -> None:
    result = state("scan", *CONF, f"{NAME}:cuont-0")
    assert (result.exit_code, result.stdout) == (4, "")
    assert COUNT in result.stderr
    assert state("explain", *CONF, "other").exit_code == 4


@pytest.mark.parametrize(
    ("provider", "pool", "code", "said"),
    [
        ("memory", "{}", 2, "topology.state.provider is memory, whose state ends with the process"),
        ("redis", "{password: s3cret}", 2, "passwordEnv"),
        ("redis", "{port: 1, timeout: 200}", 4, "localhost:1"),
    ],
)
def test_a_store_that_cannot_be_used_gives_its_exit_code(provider: str, pool: str, code: int, said: str) -> None:
    config = ("--set", f"topology.state.provider.config.jedisPoolConfig={pool}")
    result = state("explain", "a", "--json", "--set", f"topology.state.provider={provider}", *config)
    assert (result.exit_code, said in result.stderr, "s3cret" in result.output) == (code, True, False)
    assert said in json.loads(result.stdout)["error"]


def test_a_topology_is_explained(provider: SqliteStateProvider) -> None:
    result = state("explain", *CONF, NAME)
    assert result.exit_code == 0
    assert "decision record: txid 1, COMMITTED" in result.stdout
    assert f"{NAME}:count-0: committed txid 1 from attempt" in result.stdout
    assert "3 keys, 9 bytes; keys msgpack/2, values msgpack/1" in result.stdout
    assert "next start: it continues with txid 2" in result.stdout
    assert "has ended and released the fence" in result.stdout
    content = json.loads(state("explain", *CONF, NAME, "--json", "--quick").stdout)
    assert (content["action"], content["refusals"], content["blocking"]) == ("resumed", [], [])
    assert [(each["keys"], each["committed"]) for each in content["namespaces"]] == [(None, 1)]


def test_a_reader_that_has_read_enough_is_no_error(provider: SqliteStateProvider) -> None:
    commit_more(provider, 20_000)
    pipe = f"{sys.executable} -m anchorbolt state scan {COUNT} --conf conf.json | head -n 1"
    with closing(Command(["bash", "-o", "pipefail", "-c", pipe], directory=Path.cwd())) as command:
        assert command.end() == 0, repr(command)
        assert (command.out.count("\n"), command.err) == (1, "")


@pytest.mark.parametrize("arguments", [["namespaces", "--count"], ["scan", COUNT], ["explain", NAME]])
def test_neither_spark_nor_the_engine_is_loaded(provider: SqliteStateProvider, arguments: list[str]) -> None:
    program = (
        "import sys\nfrom anchorbolt.cli.main import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    code = end.code\n"
        "print([name for name in sys.modules if name.startswith(('pyspark', 'anchorbolt.engine', 'py4j'))], code)"
    )
    arguments = [sys.executable, "-c", program, "state", *arguments, *CONF]
    with closing(Command(arguments, directory=Path.cwd())) as command:
        assert command.end() == 0, repr(command)
        assert command.out.splitlines()[-1] == "[] 0"


def test_progress_is_shown_on_a_terminal_and_gone_at_the_end(provider: SqliteStateProvider) -> None:
    commit_more(provider, 50_000)
    arguments = [sys.executable, "-m", "anchorbolt", "state", "namespaces", "--count", *CONF]
    with closing(Command(arguments, directory=Path.cwd(), terminal=True)) as command:
        assert command.end() == 0, repr(command)
        assert f"counting {NAME}:count-0" in command.out
        assert "entries/s" in command.out
        assert "50,003 keys" in command.out


def test_a_namespace_that_cannot_be_read_is_listed_and_gives_exit_code_4(provider: SqliteStateProvider) -> None:
    Path("state", f"{NAME}@count-0.sqlite").write_bytes(b"no database" * 1000)
    result = state("namespaces", *CONF, "--json")
    problems = {row["namespace"]: row["problem"] for row in map(json.loads, result.stdout.splitlines())}
    assert (result.exit_code, problems[f"{NAME}:$checkpointspout-0"]) == (4, "")
    assert problems[COUNT]
