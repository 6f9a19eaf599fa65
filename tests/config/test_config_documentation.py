"""`docs/configuration.md` says what the code does: every key, every default, every reason."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from anchorbolt.config.keys import TopologyConfig
from anchorbolt.config.provider_keys import (
    HBaseThriftConfig,
    JedisClusterConfig,
    JedisPoolConfig,
    ProviderConfig,
    TlsConfig,
)
from anchorbolt.config.storm_keys import STORM_KEYS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \| ", re.MULTILINE)
STORM_ROW = re.compile(r"^\| ([^|`]+) \| ((?:`[^`]+` ?)+)\|$", re.MULTILINE)

IN_WORDS = {
    "topology.state.provider.config": "empty",
    "topology.state.namespace.prefix": "the topology's name",
    "topology.checkpoint.location": "`anchorbolt-data/<topology>/checkpoint`",
    "directory": "`anchorbolt-data/state`",
    "jedisPoolConfig": "empty",
    "jedisClusterConfig": "empty",
    "thriftConfig": "empty",
    "largestValue": "what the server takes",
    "nodes": "`[localhost:6379]`",
    "username": "the default user",
    "ca": "the system's",
    "key": "in `cert`",
}


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def documented(default: Any) -> str:
    if default is None:
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_every_key_is_documented_with_its_default(page: str) -> None:
    models: list[type[BaseModel]] = [
        *(TopologyConfig, ProviderConfig, JedisPoolConfig, JedisClusterConfig),
        *(HBaseThriftConfig, TlsConfig),
    ]
    expected = [
        (field.alias or name, IN_WORDS.get(field.alias or name, documented(field.default)))
        for model in models
        for name, field in model.model_fields.items()
    ]
    assert sorted(ROW.findall(page)) == sorted(expected)


def test_every_key_of_storm_is_documented_with_its_reason(page: str) -> None:
    rows = {key: reason for reason, keys in STORM_ROW.findall(page) for key in re.findall(r"`([^`]+)`", keys)}
    assert rows == STORM_KEYS
