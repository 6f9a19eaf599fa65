"""`anchorbolt state diff`."""

import json
from functools import partial
from pathlib import Path

from tests.cli.conftest import count_words, invoke, write_conf

diff = partial(invoke, "state", "diff", "words", "--conf", "conf.json", "--to", "other.json")


def test_the_differences_of_two_stores_are_shown(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    write_conf(here / "other.json", here / "other")
    assert diff().exit_code == 4
    copied = invoke("migrate", "copy", "--from", "conf.json", "--to", "other.json", "--topology", "words")
    assert copied.exit_code == 0, copied.output
    assert (diff().exit_code, diff().stdout) == (0, "")
    assert invoke("state", "put", "words", "count", "a", "7", "--conf", "other.json").exit_code == 0
    assert invoke("state", "delete", "words", "count", "b", "--conf", "other.json").exit_code == 0
    found = diff()
    assert found.exit_code == 1
    assert sorted(found.stdout.splitlines()) == ["+ count  'a': 7", "- count  'a': 2", "- count  'b': 1"]
    of_json = [json.loads(line) for line in diff("count", "--json").stdout.splitlines()]
    assert {each["here"]["key"] for each in of_json} == {"a", "b"}
    assert diff("other").exit_code == 4
