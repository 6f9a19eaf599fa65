"""The same word count as a dataflow of Bytewax; `bytewax_side.py` runs it, in an environment that has Bytewax.

Each process reads files of its own. Row by row, as our bolts are: a call for each line and for each word. By batches,
which helps Bytewax: a step takes all items of a batch in one call, and a word that occurs more than once in a batch is
counted by one call and gives one row.
"""

import json
import time
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition


class FilesOfProcess(StatefulSourcePartition[str, int]):
    """Every nth file, one a call. Bytewax calls it again when the items of the call before are in the snapshots."""

    def __init__(self, files: list[Path], done: int, times: Path) -> None:
        self._files = files
        self._done = done
        self._times = times
        self._calls: list[tuple[int, int, float]] = []  # number of the file, its lines, when it was asked for

    def next_batch(self) -> list[str]:
        began = time.monotonic()
        if self._done == len(self._files):
            self._calls.append((self._done, 0, began))
            self._times.write_text(json.dumps(self._calls))
            raise StopIteration
        lines = self._files[self._done].read_text().splitlines()
        self._calls.append((self._done, len(lines), began))
        self._done += 1
        return lines

    def snapshot(self) -> int:
        return self._done


class Files(FixedPartitionedSource[str, int]):
    """The files of a directory in the order of their names, shared by the processes."""

    def __init__(self, text: Path, times: Path, process: int, processes: int) -> None:
        self._text = text
        self._times = times
        self._process = process
        self._processes = processes

    def list_parts(self) -> list[str]:
        return [str(self._process)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> FilesOfProcess:
        files = sorted(self._text.glob("[0-9]*.txt"))[int(for_part) :: self._processes]
        return FilesOfProcess(files, resume_state or 0, self._times / f"{for_part}.json")


class CountOfWord(StatefulBatchLogic[None, int, int]):
    """Counts a word; returns its count after the batch."""

    def __init__(self, count: int | None) -> None:
        self._count = count or 0

    def on_batch(self, values: list[None]) -> tuple[list[int], bool]:
        self._count += len(values)
        return [self._count], StatefulBatchLogic.RETAIN

    def snapshot(self) -> int:
        return self._count


class Nowhere(DynamicSink[Any], StatelessSinkPartition[Any]):
    """Drops the counts."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> StatelessSinkPartition[Any]:
        return self

    def write_batch(self, items: list[Any]) -> None:
        pass


def words(lines: list[str]) -> list[tuple[str, None]]:
    return [(word, None) for line in lines for word in line.split()]


def words_of_line(line: str) -> list[tuple[str, None]]:
    return [(word, None) for word in line.split()]


def counted(count: int | None, value: None) -> tuple[int, int]:
    count = (count or 0) + 1
    return count, count


def dataflow(text: str, times: str, process: int, processes: int, by_rows: bool) -> Dataflow:
    flow = Dataflow("word-count")
    lines = op.input("sentences", flow, Files(Path(text), Path(times), process, processes))
    if by_rows:
        counts = op.stateful_map("count", op.flat_map("split", lines, words_of_line), counted)
    else:
        counts = op.stateful_batch("count", op.flat_map_batch("split", lines, words), CountOfWord)
    op.output("out", counts, Nowhere())
    return flow
