"""`anchorbolt state purge`."""

import json
from pathlib import Path

from anchorbolt.cli.exit_codes import STATE_REFUSED, WRONG_USAGE
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")


def test_a_topology_is_removed_only_with_yes(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    assert invoke("state", "purge", "words", *CONF).exit_code == WRONG_USAGE
    planned = invoke("state", "purge", "words", *CONF, "--dry-run")
    assert (planned.exit_code, "words:count-0: 3 keys" in planned.stdout) == (0, True)
    assert invoke("state", "get", "words", "count", "a", *CONF).exit_code == 0
    purged = json.loads(invoke("state", "purge", "words", *CONF, "--yes", "--json").stdout)
    assert purged["namespaces"]["words:count-0"] == 3
    assert list((here / "state").iterdir()) == []
    assert invoke("state", "purge", "words", *CONF, "--yes").exit_code == STATE_REFUSED
    lines = invoke("history", "checkpoint", "--json").stdout.splitlines()
    change = json.loads(lines[-1])
    assert (change["command"], change["deleted"]["count"]) == ("purge", 3)


def test_the_location_of_another_topology_is_not_advised_to_be_deleted(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    invoke("state", "savepoint", "words", *CONF, "--name", "one")
    fork = ("--set", f"topology.checkpoint.location={here / 'fork'}")
    assert invoke("state", "fork", "checkpoint-savepoints/one", "fork", *CONF, *fork).exit_code == 0
    put = invoke("state", "put", "fork", "count", "a", "7", *CONF)
    assert (put.exit_code, "that of words" in put.stderr) == (0, True)
    purged = invoke("state", "purge", "fork", *CONF, "--yes")
    assert (purged.exit_code, "that of words: keep it" in purged.stdout) == (0, True)
    assert {"put", "purge"}.isdisjoint(invoke("history", "checkpoint").stdout.split())


def test_the_entries_of_one_bolt_are_deleted(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    done = invoke("state", "purge", "words", *CONF, "--component", "count", "--yes")
    assert (done.exit_code, "no state any more" in done.stdout) == (0, True)
    assert invoke("state", "get", "words:count-0", "a", *CONF).exit_code == 1
    assert " purge by " in invoke("history", "checkpoint").stdout


def test_only_hbase_keeps_deleted_keys(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    done = invoke("state", "purge", "words", *CONF, "--deleted-keys", "--yes")
    assert (done.exit_code, done.stdout) == (0, "there is nothing to remove\n")
    assert invoke("state", "get", "words", "count", "a", *CONF).exit_code == 0
