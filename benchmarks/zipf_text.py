"""Generates the text: sentences of words, by default Zipf-distributed, the same for the same seed.

The expected counts come from the generator, not from the written files.
"""

import os
import random
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

__all__ = ["DISTINCT_WORDS", "WORDS_PER_SENTENCE", "TextFiles", "Vocabulary", "ZipfText"]

DISTINCT_WORDS = 100_000
WORDS_PER_SENTENCE = 10

_FIRST_TIME = 1_700_000_000


@dataclass(frozen=True)
class Vocabulary:
    """The words of a text, and how often each occurs.

    Attributes:
        exponent: Of Zipf's distribution; with 0, all words are equally frequent.
        first_share: Share of the first word in all words, instead of its share by the exponent; None leaves that.
        word_bytes: Length of a word, at least.
    """

    exponent: float = 1.1
    first_share: float | None = None
    word_bytes: int = 0

    def words(self) -> list[str]:
        """Return the words, the most frequent first."""
        return [f"word{rank}".ljust(self.word_bytes, "x") for rank in range(1, DISTINCT_WORDS + 1)]

    def weights(self) -> list[float]:
        """Return how frequent the words are, in their order."""
        weights = [rank**-self.exponent for rank in range(1, DISTINCT_WORDS + 1)]
        if self.first_share is not None:
            weights[0] = sum(weights[1:]) * self.first_share / (1 - self.first_share)
        return weights


class TextFiles:
    """A directory of text files, which get numbers and appear when they are complete."""

    def __init__(self, directory: Path) -> None:
        """Write into `directory`, which is made."""
        directory.mkdir(parents=True)
        self._directory = directory
        self._files = 0

    def add(self, lines: list[str], files: int) -> None:
        """Distribute lines, which have no line ends, over so many new files."""
        for index in range(files):
            self._add_file("".join(line + "\n" for line in lines[index::files]))

    def _add_file(self, text: str) -> None:
        name = f"{self._files:06d}.txt"
        hidden = self._directory / f".{name}"
        hidden.write_text(text)
        # Spark reads files in the order of their modification times, so no two files may have the same time.
        time = _FIRST_TIME + self._files
        os.utime(hidden, (time, time))
        hidden.rename(self._directory / name)
        self._files += 1


class ZipfText:
    """An endless text, written as files into a directory that a file stream reads.

    Attributes:
        counts: How often each word was written so far.
        words: How many words were written so far.
    """

    def __init__(self, directory: Path, seed: int, vocabulary: Vocabulary | None = None) -> None:
        """Write into `directory`, which is made."""
        vocabulary = vocabulary or Vocabulary()
        self._text = TextFiles(directory)
        self._random = random.Random(seed)
        self._vocabulary = vocabulary.words()
        self._weights = list(accumulate(vocabulary.weights()))
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
        self._text.add(lines, files)
