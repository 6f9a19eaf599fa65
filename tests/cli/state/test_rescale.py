"""`anchorbolt state rescale`."""

import json
from pathlib import Path

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF = ("--conf", "conf.json")
KEYS = """
def whole(key):
    return key


def raises(key):
    raise KeyError(key)
"""


def test_a_bolt_gets_another_number_of_tasks(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a", "c d e f g h")
    planned = invoke("state", "rescale", "words", "count=3", *CONF, "--dry-run", "--json")
    rescaled = json.loads(invoke("state", "rescale", "words", "count=3", *CONF, "--json").stdout)
    assert rescaled["bolts"] == json.loads(planned.stdout)["bolts"]
    assert (rescaled["bolts"][0]["entries"], rescaled["bolts"][0]["after"]) == (8, 3)
    found = invoke("state", "get", "words", "count", "a", *CONF, "--json")
    assert json.loads(found.stdout)["value"] == 2
    again = invoke("state", "rescale", "words", "count=3", *CONF)
    assert (again.exit_code, "nothing to do" in again.stdout) == (0, True)
    (here / "keys.py").write_text(KEYS)
    assert invoke("state", "rescale", "words", "count=2", *CONF, "--key-function", "keys:whole").exit_code == 0
    refused = invoke("state", "rescale", "words", "count=4", *CONF, "--key-function", "keys:raises")
    assert refused.exit_code == STATE_REFUSED


@pytest.mark.parametrize(
    "arguments", [["count"], ["count=0"], ["count=x"], ["=3"], ["count=2", "--key-function", "no:thing"]]
)
def test_a_wrong_argument_is_refused(here: Path, arguments: list[str]) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a")
    assert invoke("state", "rescale", "words", *arguments, *CONF).exit_code == 2
