"""`anchorbolt state ttl`."""

import json
import time
from pathlib import Path

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")


def test_the_entries_of_a_bolt_get_a_due_time_and_lose_it(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    planned = invoke("state", "ttl", "words", "count", "30d", *CONF, "--dry-run")
    assert (planned.exit_code, "words:count-0" in planned.stdout) == (0, True)
    begun = time.time() * 1000
    given = json.loads(invoke("state", "ttl", "words", "count", "30 d", *CONF, "--json").stdout)
    assert (given["entries"], given["is_dry_run"]) == (3, False)
    assert 0 <= given["expires_at"] - begun - 30 * 86_400_000 < 600_000
    found = json.loads(invoke("state", "get", "words", "count", "a", *CONF, "--json").stdout)
    assert (found["value"], found["expires_at"]) == (2, given["expires_at"])
    assert invoke("state", "ttl", "words", "count", "never", *CONF).stdout.startswith("3 keys")
    found = json.loads(invoke("state", "get", "words", "count", "a", *CONF, "--json").stdout)
    assert "expires_at" not in found
    assert invoke("state", "ttl", "words", "split", "1 h", *CONF).exit_code == STATE_REFUSED


@pytest.mark.parametrize("ttl", ["soon", "30", "0 s", "-1 d"])
def test_a_wrong_duration_is_a_wrong_argument(here: Path, ttl: str) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a")
    refused = invoke("state", "ttl", *CONF, "--", "words", "count", ttl)
    assert refused.exit_code == 2
    assert ttl in refused.stderr
