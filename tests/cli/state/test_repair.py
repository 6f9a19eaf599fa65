"""`anchorbolt state put` and `anchorbolt state delete`."""

import json
from functools import partial
from pathlib import Path

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")
put = partial(invoke, "state", "put", "words", "count", *CONF)
delete = partial(invoke, "state", "delete", "words", "count", *CONF)
get = partial(invoke, "state", "get", "words", "count", *CONF)


def test_a_key_is_put_and_deleted(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    planned = put("a", "7", "--dry-run")
    assert (planned.exit_code, "words:count-0  'a': 2 -> 7" in planned.stdout) == (0, True)
    assert get("a").stdout == "'a': 2\n"
    done = json.loads(put("a", "[7, 8]", "--json").stdout)
    assert (done["entries"][0]["before"]["value"], done["is_dry_run"]) == (2, False)
    assert get("a").stdout == "'a': [7, 8]\n"
    assert put("new", "some text", "--ttl", "1 h").exit_code == 0
    found = json.loads(get("new", "--json").stdout)
    assert (found["value"], "expires_at" in found) == ("some text", True)
    assert put("new", '"7"', "--task", "0").exit_code == 0
    assert get("new").stdout == "'new': '7'\n"
    deleted = delete("new", "b")
    assert (deleted.exit_code, "'new': '7'" in deleted.stdout, "'b': 1" in deleted.stdout) == (0, True, True)
    assert (delete("b").exit_code, get("b").exit_code) == (1, 1)
    assert get("c").stdout == "'c': 1\n"


def test_what_cannot_be_put_has_its_exit_code(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a")
    for wrong in (("{}", "1"), ("a", "1", "--ttl", "soon"), ("a", "1", "--task", "-1")):
        assert put(*wrong).exit_code == 2, wrong
    assert put("a", "1", "--task", "3").exit_code == STATE_REFUSED
    assert invoke("state", "put", "words", "split", "a", "1", *CONF).exit_code == STATE_REFUSED
    assert invoke("state", "delete", "other", "count", "a", *CONF).exit_code == STATE_REFUSED
    assert get("a").stdout == "'a': 1\n"


@pytest.mark.parametrize("command", ["put", "delete"])
def test_the_help_names_the_options(command: str) -> None:
    shown = invoke("state", command, "--help", COLUMNS="200").stdout
    assert all(option in shown for option in ("--task", "--dry-run", "--take-fence", "--conf", "--json"))
