"""The text of the demo: writes it as files for Spark, and counts it in plain Python. Never imports Anchorbolt."""

import gzip
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

__all__ = ["count_words", "cut_into_files", "read_verses"]

_TEXT = Path(__file__).resolve().parent.parent / "king_james_bible.txt.gz"


def read_verses(limit: int | None = None) -> list[str]:
    """Return the King James Bible, one verse a line, or its first `limit` verses."""
    with gzip.open(_TEXT, "rt", encoding="utf-8") as text:
        return text.read().splitlines()[:limit]


def count_words(verses: Sequence[str]) -> Counter[str]:
    """Count the words in plain Python, to compare the job's result with."""
    counts: Counter[str] = Counter()
    for verse in verses:
        counts.update(verse.split())
    return counts


def cut_into_files(verses: Sequence[str], folder: Path, files: int) -> None:
    """Write the verses in order to a new folder, as `files` files of similar length."""
    folder.mkdir(parents=True)
    for index in range(files):
        part = verses[index * len(verses) // files : (index + 1) * len(verses) // files]
        (folder / f"verses-{index:03d}.txt").write_text("".join(f"{verse}\n" for verse in part), "utf-8")
