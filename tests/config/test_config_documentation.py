"""`docs/configuration.md` says what the code does: every key, every default, every key of Storm."""

import re
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config.declaration import by_key
from anchorbolt.config.providers import GROUPS, PROVIDER_CONFIG, UNGROUPED, TlsSettings
from anchorbolt.config.settings import Settings
from anchorbolt.config.spark_options import SPARK, SparkOptions
from anchorbolt.config.storm_keys import STORM_KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \| ", re.MULTILINE)
STORM_ROW = re.compile(r"^\| [^|`]+ \| ((?:`[^`]+` ?)+)\|$", re.MULTILINE)

IN_WORDS = {
    "topology.state.namespace.prefix": "the topology's name",
    "topology.checkpoint.location": "`anchorbolt-data/<topology>/checkpoint`",
    "directory": "`anchorbolt-data/state`",
    "largestValue": "the server's limit",
    "nodes": "`[localhost:6379]`",
    "username": "the default user",
    "ca": "the system's",
    "key": "in `cert`",
}


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def documented(default: Any) -> str:
    if default in (None, MISSING):
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_key_is_documented_with_its_default(page: str) -> None:
    tables = [by_key(Settings), UNGROUPED, *GROUPS.values(), by_key(TlsSettings), by_key(SparkOptions)]
    expected = [(key, IN_WORDS.get(key, documented(each.default))) for table in tables for key, each in table.items()]
    expected += [
        ("topology.state.provider", "`sqlite`"),
        *((key, "empty") for key in (PROVIDER_CONFIG, SPARK, *GROUPS)),
    ]
    assert sorted(ROW.findall(page)) == sorted(expected)


def test_every_key_of_storm_is_documented_with_its_reason(page: str) -> None:
    keys = [key for keys in STORM_ROW.findall(page) for key in re.findall(r"`([^`]+)`", keys)]
    assert sorted(keys) == sorted(STORM_KEYS)
