"""PyFlink's side: the job in `peers/`, in a Java process of its own, with a checkpoint for about each batch.

PyFlink is installed in an environment of its own, which set-up makes: `tools/own_environment.py`.
"""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.contestant import BatchFigures, Place
from benchmarks.workloads import LARGE, TASKS, Workload

sys.path.append(str(Path(__file__).resolve().parent.parent / "tools"))

from own_environment import FLINK  # (the tools are scripts, not a package)

__all__ = ["FlinkSide"]

_JOB = Path(__file__).resolve().parent / "peers" / "flink_word_count.py"
_FIRST_WORDS_PER_S = 30_000
"""What decides the interval of the checkpoints in the first run; later, the run before does."""


class FlinkSide:
    """PyFlink as a contestant."""

    name = "PyFlink threads"
    works_on = LARGE

    def __init__(self, spark: None, workload: Workload, place: Place) -> None:
        """See `ContestantKind`."""
        self._workload = workload
        self._text = place.text
        self._home = place.directory
        self._home.mkdir(parents=True)
        self._batches = 0
        self._words: set[str] = set()
        self._interval_ms = workload.words * 1000 / _FIRST_WORDS_PER_S

    @staticmethod
    def is_installed() -> bool:
        python = FLINK.python()  # also of an environment without Flink, which has no packages for a newer Python
        return python is not None and any(python.parent.parent.glob("lib/python*/site-packages/pyflink"))

    @staticmethod
    def session(master: str) -> None:
        return None

    def run(self) -> list[BatchFigures]:
        """The time of a batch is that until its last word is counted; the checkpoints run meanwhile."""
        size = self._workload.files
        files = sorted(self._text.glob("[0-9]*.txt"))[self._batches * size :]
        words = []
        for batch in (files[start : start + size] for start in range(0, len(files), size)):
            texts = [file.read_text().split() for file in batch]
            self._words.update(*texts)
            words.append(sum(map(len, texts)))
        times = self._call(self._text, words, round(self._interval_ms))
        figures = [
            BatchFigures(self._batches + number, self._workload.sentences, (after - before) * 1000, {})
            for number, (before, after) in enumerate(pairwise(times))
        ]
        self._batches += len(figures)
        self._interval_ms = figures[-1].trigger_ms
        return figures

    def counts(self) -> dict[str, int]:
        """Ask the last savepoint for each word of the text."""
        words = self._home / "words.txt"
        words.write_text("".join(f"{word}\n" for word in self._words))
        counts: dict[str, int] = self._call(words)
        return counts

    def _call(self, text: Path, *asked: Any) -> Any:
        python = FLINK.python()
        assert python is not None
        # Flink starts the first `python` of the PATH.
        environment = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "FLINK_LOG_DIR": str(self._home)}
        command = [str(python), str(_JOB), str(text), str(self._home), str(TASKS), *map(json.dumps, asked)]
        if subprocess.run(command, env={**os.environ, "PYTHONPATH": "", **environment}, check=False).returncode:
            print(*(log.read_text() for log in self._home.glob("*.log")))
            raise RuntimeError("the program of PyFlink failed; see its log")
        return json.loads((self._home / "answer.json").read_text())
