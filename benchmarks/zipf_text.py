"""Generates the text: sentences of Zipf-distributed words, the same for the same seed.

The expected counts come from the generator, not from the written files.
"""

import os
import random
from collections import Counter
from itertools import accumulate
from pathlib import Path

__all__ = ["DISTINCT_WORDS", "EXPONENT", "WORDS_PER_SENTENCE", "ZipfText"]

EXPONENT = 1.1
DISTINCT_WORDS = 100_000
WORDS_PER_SENTENCE = 10

_FIRST_TIME = 1_700_000_000


class ZipfText:
    """An endless text, written as files into a directory that a file stream reads.

    Attributes:
        counts: How often each word was written so far.
        words: How many words were written so far.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        """Write into `directory`, which is made."""
        directory.mkdir(parents=True)
        self._directory = directory
        self._random = random.Random(seed)
        self._vocabulary = [f"word{rank}" for rank in range(1, DISTINCT_WORDS + 1)]
        self._weights = list(accumulate(rank**-EXPONENT for rank in range(1, DISTINCT_WORDS + 1)))
        self._files = 0
        self.counts: Counter[str] = Counter()
        self.words = 0

    def write(self, sentences: int, files: int) -> None:
        """Add one batch of `sentences`, distributed evenly over `files` files."""
        words = self._random.choices(self._vocabulary, cum_weights=self._weights, k=sentences * WORDS_PER_SENTENCE)
        self.counts.update(words)
        self.words += len(words)
        lines = [
            " ".join(words[start : start + WORDS_PER_SENTENCE]) for start in range(0, len(words), WORDS_PER_SENTENCE)
        ]
        for index in range(files):
            self._add_file("\n".join(lines[index::files]) + "\n")

    def _add_file(self, text: str) -> None:
        name = f"{self._files:06d}.txt"
        hidden = self._directory / f".{name}"
        hidden.write_text(text)
        # Spark reads files in the order of their modification times, so no two files may have the same time.
        time = _FIRST_TIME + self._files
        os.utime(hidden, (time, time))
        hidden.rename(self._directory / name)
        self._files += 1
