"""The rows of a run: drawn from a seed, written to files or a stream; and the dead letters that they must leave."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import redis
from typer.testing import CliRunner

from anchorbolt.cli.main import app
from tests.crash.deaths.messages import add_entries

RAISES, FAILS, RAISES_LATE, DIES = "raises", "fails", "raises-late", "dies"
POISONS = (RAISES, FAILS, RAISES_LATE)
"""What becomes of a row: its first bolt raises, or fails it; or its second one raises, once its state has changed."""
_WORDS = [f"word{number}" for number in range(2000)]


class Row(NamedTuple):
    """A row."""

    number: int  # from 1
    word: str
    kind: str  # one of `POISONS`, or `DIES`: its first bolt kills its own process; any other is counted

    @property
    def text(self) -> str:
        return " ".join(map(str, self))

    @property
    def is_poison(self) -> bool:
        return self.kind != "plain"


def rows(seed: int, number: int, poison: int, deadly: int) -> list[Row]:
    """Return so many rows, of which some are poison, and others deadly, in places that are drawn."""
    random = Random(f"rows {seed}")
    places = random.sample(range(number), poison + deadly)
    kinds = dict.fromkeys(places[:deadly], DIES) | {place: random.choice(POISONS) for place in places[deadly:]}
    return [Row(place + 1, random.choice(_WORDS), kinds.get(place, "plain")) for place in range(number)]


def counts(all_rows: Sequence[Row]) -> Counter[str]:
    """Return what the state must hold: by word how many rows there are that are no poison, and their numbers' sum."""
    counted = Counter[str]()
    for row in all_rows:
        if not row.is_poison:
            counted[row.word] += 1
            counted[f"sum {row.word}"] += row.number
    return counted


def write_files(folder: Path, all_rows: Sequence[Row], files: int) -> None:
    """Write the rows to so many text files."""
    folder.mkdir(parents=True)
    for file in range(files):
        part = all_rows[len(all_rows) * file // files : len(all_rows) * (file + 1) // files]
        (folder / f"rows-{file:04d}.txt").write_text("".join(f"{row.text}\n" for row in part))


def load(client: redis.Redis, all_rows: Sequence[Row]) -> None:
    """Add the rows to the stream, each with its number as id."""
    add_entries(client, ({"row": row.text} for row in all_rows))


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
