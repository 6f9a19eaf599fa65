"""A run of rows of which some are poison: as one of `tests.crash.deaths`, with another job and another outcome."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash.dead_letters.job import files_conf, stream_conf
from tests.crash.dead_letters.rows import (
    counts,
    letter_problems,
    letters_in_stream,
    listed_letters,
    load,
    rows,
    write_files,
)
from tests.crash.deaths.outcome import state_problems, stream_problems
from tests.crash.deaths.report import Say
from tests.crash.deaths.runs import Run, Wanted, wave_lines

_LETTERS = "letters"  # the key of their stream


@dataclass(frozen=True)
class Letters:
    """Which rows are poison, and where the dead letters go."""

    poison: int
    deadly: int = 0  # rows that kill the process of their bolt
    is_reliable: bool = False  # whether a reliable spout reads a Redis stream; otherwise a stream spout reads files
    in_redis: bool = False  # whether the dead letters go to a Redis stream; otherwise to a directory
    files: int = 40
    rows_per_wave: int = 8000  # of the reliable spout, at most


class LettersRun(Run):
    """One run below a folder of its own; the messages are rows."""

    job = "tests.crash.dead_letters.job"

    def __init__(self, home: Path, wanted: Wanted, letters: Letters, say: Say) -> None:
        super().__init__(home, wanted, say)
        self._letters = letters
        self._folder = home / "rows"
        self._directory = home / "run" / "dead"

    def _load(self) -> None:
        wanted, letters = self._wanted, self._letters
        self._rows = rows(wanted.seed, wanted.messages, letters.poison, letters.deadly)
        if not letters.is_reliable:
            write_files(self._folder, self._rows, letters.files)
            return
        with self._server.client() as client:
            load(client, self._rows)

    def _settings(self) -> dict[str, Any]:
        letters = self._letters
        return {
            "topology.dead.letter": f"redis-stream:{_LETTERS}" if letters.in_redis else str(self._directory),
            "topology.spout.intake.tuples": letters.rows_per_wave // 2,  # of each task
            "topology.state.checkpoint.interval.ms": 100,
        }

    def _chosen(self) -> dict[str, Any]:
        return stream_conf(self._server) if self._letters.is_reliable else files_conf(str(self._folder))

    def _problems(self) -> list[str]:
        wanted, letters = self._wanted, self._letters
        found = state_problems(self._conf, counts(self._rows), exactly=True)
        with self._server.client() as client:
            if letters.is_reliable:
                found += stream_problems(client, wanted.messages)
            dead = letters_in_stream(client, _LETTERS) if letters.in_redis else listed_letters(self._directory)
        return found + letter_problems(dead, self._rows)

    def _delivered(self) -> int:
        """Return how many rows the job has taken in, as far as it has said so."""
        if self._letters.is_reliable:
            return super()._delivered()
        lines = {line["txid"]: line for driver in self._drivers for line in wave_lines(driver.text)}
        return sum(line["messages"] for line in lines.values())

    def _is_drained(self) -> bool:
        return super()._is_drained() if self._letters.is_reliable else True  # else the counts would show it
