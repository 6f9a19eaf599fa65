"""`anchorbolt history` shows who has changed the state by a command, and what."""

import getpass
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")


def changes(place: str = "checkpoint") -> list[Any]:
    """Return the changes in the history at a checkpoint location, without what differs from run to run."""
    lines = invoke("history", place, "--last", "1000", "--json").stdout.splitlines()
    found = [each for each in map(json.loads, lines) if each["kind"] == "change"]
    assert all(each["at"] > 1e9 for each in found)
    assert {each["by"] for each in found} <= {f"{getpass.getuser()}@{socket.gethostname()}"}
    hidden = ("kind", "at", "by", "generation")
    return [{name: value for name, value in each.items() if name not in hidden} for each in found]


@pytest.fixture
def conf(here: Path) -> Path:
    conf = write_conf(here / "conf.json", here / "state")
    count_words(conf, "a b a", "c", parallelism=2)
    return conf


def test_each_change_has_its_author_its_transaction_and_its_numbers(conf: Path) -> None:
    for command in (
        ("put", "words", "count", "a", "7"),
        ("delete", "words", "count", "b", "c"),
        ("ttl", "words", "count", "1 h"),
        ("rescale", "words", "count=1", "--key-function", "key"),
        ("rename", "words", "count", "counter"),
    ):
        done = invoke("state", *command, *CONF)
        assert done.exit_code == 0, done.output
    made = changes()
    moved = {name: made[3].get(name) for name in ("put", "deleted")}  # only if the key was in the second task
    assert moved in ({"put": {"count": 1}, "deleted": {"count": 1}}, {"put": None, "deleted": None})
    assert made == [
        {"txid": 2, "command": "put", "put": {"count": 1}, "keys": ["'a'"]},
        {"txid": 3, "command": "delete", "deleted": {"count": 2}, "keys": ["'b'", "'c'"]},
        {"txid": 4, "command": "ttl", "put": {"count": 1}},
        {
            "txid": 5,
            "command": "rescale",
            "tasks": {"count": [2, 1]},
            **{name: each for name, each in moved.items() if each},
        },
        {
            "txid": 6,
            "command": "rename",
            "put": {"counter": 1},
            "deleted": {"count": 1},
            "tasks": {"count": [1, 0], "counter": [0, 1]},
        },
    ]
    lines = invoke("history", "checkpoint").stdout.splitlines()
    assert [each for each in lines if f"put by {getpass.getuser()}@" in each and "put 1 in count, keys 'a'" in each]
    assert [each for each in lines if " rescale by " in each and "count: 2 tasks -> 1 task" in each]


def test_a_command_that_changes_nothing_leaves_no_record(conf: Path) -> None:
    assert invoke("state", "put", "words", "count", "a", "7", *CONF, "--dry-run").exit_code == 0
    assert invoke("state", "rename", "words", "none", "counter", *CONF).exit_code == STATE_REFUSED
    assert invoke("state", "delete", "words", "count", "absent", *CONF).exit_code == 1
    assert invoke("state", "rescale", "words", "count=2", *CONF).exit_code == 0
    assert changes() == []


def test_a_start_adds_the_changes_of_commands_that_could_not_reach_the_location(conf: Path, here: Path) -> None:
    (here / "checkpoint").rename(here / "elsewhere")
    done = invoke("state", "put", "words", "count", "a", "7", *CONF)
    assert (done.exit_code, "does not show the change yet" in done.stderr) == (0, True)
    assert not (here / "checkpoint").exists()
    (here / "elsewhere").rename(here / "checkpoint")
    assert changes() == []
    count_words(conf, "a", parallelism=2)
    assert [each["command"] for each in changes()] == ["put"]
    kinds = [json.loads(line)["kind"] for line in invoke("history", "checkpoint", "--json").stdout.splitlines()]
    assert kinds == ["start", "wave", "wave", "end", "change", "start", "wave", "end"]


def test_a_restore_and_a_fork_are_in_the_history_of_the_topology_they_make(conf: Path, here: Path) -> None:
    assert invoke("state", "put", "words", "count", "a", "7", *CONF).exit_code == 0
    assert invoke("state", "savepoint", "words", *CONF, "--name", "one").exit_code == 0
    (here / "checkpoint").rename(here / "old")
    (here / "checkpoint").mkdir()
    saved = str(here / "checkpoint-savepoints" / "one")
    for _ in range(2):  # the second call finds that all is done
        forked = invoke("state", "fork", saved, "copies", *CONF, "--rescale", "count=1", "--json")
        assert forked.exit_code == 0, forked.output
    assert [each["command"] for each in changes()] == ["put", "fork", "rescale"]
    assert changes()[1] == {"txid": 2, "command": "fork", "put": {"count": 3}}
