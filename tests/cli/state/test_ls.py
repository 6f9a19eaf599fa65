"""`anchorbolt state ls`."""

import json
import time
from pathlib import Path
from typing import Any

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")


def listed(*arguments: str) -> dict[str, Any]:
    found = invoke("state", "ls", *arguments, "--json")
    assert found.exit_code == 0, found.output
    return {each["prefix"]: each for each in map(json.loads, found.stdout.splitlines())}


def test_each_topology_has_its_size_its_age_and_what_is_left_over(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    found = listed(*CONF)["words"]
    assert (found["topology"], found["entries"], found["txid"]) == ("words", 3, 1)
    assert (found["left_over"], found["problems"], found["holds_fence"]) == ([], [], False)
    assert found["size"] > 1000
    assert abs(found["committed_at"] / 1000 - time.time()) < 600
    assert invoke("state", "rename", "words", "count", "counter", *CONF).exit_code == 0
    changed = listed(*CONF)["words"]
    assert (changed["txid"], changed["entries"]) == (2, 3)
    assert changed["committed_at"] >= found["committed_at"]
    [line] = invoke("state", "ls", *CONF).stdout.splitlines()
    assert line.startswith(f"words: {changed['namespaces']} namespaces, 3 keys, ")
    assert line.endswith(" s ago, no driver") or "less than 1 s ago" in line


def test_a_damaged_record_is_named(here: Path) -> None:
    conf = write_conf(here / "conf.json", here / "state")
    count_words(conf, "a")
    (here / "state" / "words@count-0.sqlite").write_bytes(b"no database" * 1000)
    found = invoke("state", "ls", *CONF)
    assert found.exit_code == STATE_REFUSED
    assert "cannot be read: " in found.stdout


def test_an_empty_store_says_so(here: Path) -> None:
    write_conf(here / "conf.json", here / "state")
    assert (invoke("state", "ls", *CONF).stdout, invoke("state", "ls", *CONF).exit_code) == ("", 0)
