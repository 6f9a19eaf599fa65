"""`anchorbolt state import`."""

import json
from pathlib import Path

from anchorbolt.cli.exit_codes import STATE_REFUSED, WRONG_USAGE
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")


def test_what_scan_prints_can_be_imported(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c")
    (here / "old.jsonl").write_text(invoke("state", "scan", "words:count-0", *CONF, "--json").stdout)
    assert invoke("state", "put", "words", "count", "a", "9", *CONF).exit_code == 0
    assert invoke("state", "put", "words", "count", "d", "9", *CONF).exit_code == 0
    planned = invoke("state", "import", "words", "count", "old.jsonl", "--replace", *CONF, "--dry-run")
    assert (planned.exit_code, "3 entries of old.jsonl, instead of 4" in planned.stdout) == (0, True)
    done = json.loads(invoke("state", "import", "words", "count", "old.jsonl", "--replace", *CONF, "--json").stdout)
    assert (done["entries"], done["removed"], done["txid"]) == (3, 4, 4)
    lines = invoke("state", "scan", "words:count-0", *CONF, "--json").stdout.splitlines()
    assert sorted(lines) == sorted((here / "old.jsonl").read_text().splitlines())
    assert " import by " in invoke("history", "checkpoint").stdout


def test_a_wrong_line_is_named(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a")
    (here / "new.jsonl").write_text('{"key": 1, "value": 1}\nkey 2\n')
    refused = invoke("state", "import", "words", "count", "new.jsonl", *CONF)
    assert (refused.exit_code, "new.jsonl, line 2: it is not JSON" in refused.stderr) == (STATE_REFUSED, True)
    assert invoke("state", "import", "words", "count", "none.jsonl", *CONF).exit_code == WRONG_USAGE
    wrong = invoke("state", "import", "words", "count", "new.jsonl", "--key-function", "none:none", *CONF)
    assert wrong.exit_code == WRONG_USAGE
