"""The dead letters that a run has left, compared with the rows that are poison."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from typer.testing import CliRunner

from anchorbolt.cli.main import app
from tests.crash.dead_letters.rows import Row

_SHOWN = 5


def listed_letters(folder: Path) -> list[dict[str, Any]]:
    """Return what `anchorbolt dead-letters list` shows of a directory."""
    listed = CliRunner().invoke(app, ["dead-letters", "list", str(folder), "--json"])
    assert listed.exit_code == 0, listed.output
    return [json.loads(line) for line in listed.stdout.splitlines()]


def letters_in_stream(client: redis.Redis, key: str) -> list[dict[str, Any]]:
    """Return the letters in a Redis stream."""
    entries: Any = client.xrange(key)
    return [json.loads(fields[b"letter"]) for _, fields in entries]


def letter_problems(letters: Sequence[dict[str, Any]], all_rows: Sequence[Row]) -> list[str]:
    """Say what is not as it must be among the dead letters: each row that is poison once, no others."""
    wanted = Counter(row.text for row in all_rows if row.is_poison)
    found = Counter(str(letter["values"][0]) for letter in letters)
    problems = []
    for what, texts in (("are no dead letters", wanted - found), ("are dead letters too often", found - wanted)):
        if texts:
            problems.append(f"{texts.total()} rows {what}, such as {sorted(texts)[:_SHOWN]}")
    return problems
