"""State that Storm wrote to Redis, one release of each generation, and what it holds: real bytes.

The files here are a copy of the fixtures beside this repository (`../shared/storm_fixtures`, whose README says how they
were made and what they mean) without the namespace `counts-1` and the releases that wrote the same bytes. Where the
fixtures themselves are at hand, tests use those, too.
"""

import base64
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from anchorbolt.storm.wrapper import Generation

HERE = Path(__file__).parent
SHARED = HERE.parents[3] / "shared" / "storm_fixtures"


@dataclass(frozen=True)
class Dump:
    """What one release of Storm wrote."""

    name: str
    storm: str
    hashes: dict[str, dict[bytes, bytes]]
    expected: dict[str, dict[str, Any]]
    shared: bool

    @property
    def generation(self) -> Generation:
        return next(each for each in reversed(Generation) if each.value <= self.storm[:3])

    @property
    def base64(self) -> bool:
        """Whether Redis holds Base64 text."""
        return self.generation in (Generation.STORM_1_0, Generation.STORM_1_1)

    def binary(self) -> dict[str, dict[bytes, bytes]]:
        """Return what Storm serialised, by the name of the Redis hash: without the Base64, and without the txids."""
        take_off = base64.b64decode if self.base64 else bytes
        return {
            name: {take_off(field): take_off(value) for field, value in fields.items()}
            for name, fields in self.hashes.items()
            if not name.endswith("$txid")
        }

    def __str__(self) -> str:
        return f"{self.name}{' (shared)' if self.shared else ''}"


class Form(NamedTuple):
    """A value that Kryo itself serialised."""

    name: str
    data: bytes
    form: dict[str, Any]


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


@cache
def forms(kryo: str) -> tuple[Form, ...]:
    """Return the values that this release of Kryo serialised: 4.0.2 or 5.6.2."""
    lines = (HERE / f"kryo-{kryo}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return tuple(Form(row["name"], bytes.fromhex(row["bytes"]), row["form"]) for row in rows)


def holds_object(form: Any) -> bool:
    """Whether a stated form holds anything of a class that only the user has."""
    if isinstance(form, dict):
        return form.get("t") == "object" or any(map(holds_object, form.values()))
    return isinstance(form, list) and any(map(holds_object, form))


def _read(path: Path, shared: bool) -> Dump:
    expected = json.loads(path.with_name(f"{path.stem}.expected.json").read_text())
    hashes = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        fields = ((base64.b64decode(field), base64.b64decode(value)) for field, value in row["fields"])
        hashes[row["namespace"]] = dict(fields)
    return Dump(path.stem, expected["storm"], hashes, expected["namespaces"], shared)
