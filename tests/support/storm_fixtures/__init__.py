"""State that Storm wrote to Redis, one release of each generation, and what it holds: real bytes.

The files here are a copy of the fixtures beside this repository (`../shared/storm_fixtures`, whose README says how they
were made and what they mean) without the namespace `counts-1` and the releases that wrote the same bytes. Where the
fixtures themselves are at hand, tests use those, too.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Dump", "dump", "dumps"]

HERE = Path(__file__).parent
SHARED = HERE.parents[3] / "shared" / "storm_fixtures"


@dataclass(frozen=True)
class Dump:
    """What one release of Storm wrote.

    Attributes:
        name: The file's name without its ending: "storm-1.1.0", "storm-1.1.0-wordcount".
        storm: The release.
        hashes: By the name of each Redis hash, its fields and values as Redis holds them.
        expected: By namespace, what it has to hold: see the fixtures' README, "Expected".
        shared: Whether it was read beside the repository.
    """

    name: str
    storm: str
    hashes: dict[str, dict[bytes, bytes]]
    expected: dict[str, dict[str, Any]]
    shared: bool

    def __str__(self) -> str:
        return f"{self.name}{' (shared)' if self.shared else ''}"


@cache
def dumps() -> tuple[Dump, ...]:
    """Return all dumps: the copies, and the fixtures where they are at hand."""
    return tuple(
        _read(path, directory is SHARED)
        for directory in (HERE, SHARED)
        for path in sorted(directory.glob("storm-*.jsonl"))
    )


def dump(name: str) -> Dump:
    """Return a dump by its name, from the copies."""
    return next(each for each in dumps() if each.name == name)


def _read(path: Path, shared: bool) -> Dump:
    expected = json.loads(path.with_name(f"{path.stem}.expected.json").read_text())
    hashes = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        fields = ((base64.b64decode(field), base64.b64decode(value)) for field, value in row["fields"])
        hashes[row["namespace"]] = dict(fields)
    return Dump(path.stem, expected["storm"], hashes, expected["namespaces"], shared)
