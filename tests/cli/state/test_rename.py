"""`anchorbolt state rename`."""

import json
from pathlib import Path

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")


def test_the_state_of_a_bolt_gets_another_id(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    planned = invoke("state", "rename", "words", "count", "counter", *CONF, "--dry-run")
    assert (planned.exit_code, "words:count-0 -> words:counter-0" in planned.stdout) == (0, True)
    renamed = json.loads(invoke("state", "rename", "words", "count", "counter", *CONF, "--json").stdout)
    assert (renamed["entries"], renamed["is_dry_run"]) == (3, False)
    found = invoke("state", "get", "words", "counter", "a", *CONF, "--json")
    assert json.loads(found.stdout)["value"] == 2
    assert invoke("state", "rename", "words", "count", "counter", *CONF).exit_code == STATE_REFUSED
