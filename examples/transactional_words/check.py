"""Compares both databases with a plain count of the lines in `in/`. Run it in the directory in which the job ran."""

import sys
from collections import Counter
from pathlib import Path

from job import BUCKET
from tables import read_all


def main():
    words = Counter(word for file in Path("in").glob("*.txt") for word in file.read_text().split())
    buckets = Counter(count // BUCKET for count in words.values())
    # A bucket that all words have left is still there, with 0 words.
    found = {bucket: count for bucket, count in read_all("buckets.sqlite").items() if count}
    equal = {word: count for word, (count, _) in read_all("words.sqlite").items()} == words and found == buckets
    print(f"{words.total()} words, {len(words)} different, {buckets[0]} of them less than {BUCKET} times: {equal}")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
