"""Lines of dead letters: any value that can be sent can be written, listed and replayed."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.checkpoint.letters.letter_store import letters_of
from anchorbolt.checkpoint.letters.writers import Lines
from anchorbolt.files import open_folder
from anchorbolt.util.retry import NO_RETRY


def letter(value: Any, reason: str = "no") -> DeadLetter:
    return DeadLetter("in", "default", (value,), 1, "bolt", 0, reason, 2, 0.0)


@pytest.mark.parametrize(
    "value", [{(1, 2): 3}, {b"k": [b"v"]}, b"\xff", "a\u2028b\x85c", [1, (2, {"a": None})], math.inf, "grün"], ids=repr
)
def test_a_letter_is_read_as_it_was_written(value: Any, tmp_path: Path) -> None:
    store = LetterFolder(open_folder(str(tmp_path)))
    Lines(store, NO_RETRY).write(7, [letter(value), letter("second")])
    [(txid, first), (_, second)] = letters_of(store, "letters-000000000007.jsonl")
    assert (txid, first.values, second.values) == (7, (value,), ("second",))


def test_a_line_is_readable_and_escapes_what_is_no_text() -> None:
    line = letter("grün", reason="no file \udcff").as_json(7)
    assert "grün" in line
    line.encode()
    assert json.loads(line)["reason"] == "no file \udcff"
