"""Whole runs on worker processes: what the state holds at the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from anchorbolt.transactional import FilesTransactionalSpout
from tests.engine.jobs import write_lines
from tests.engine.workers.processes.jobs import Marks, counting, counts_of, generated
from tests.engine.workers.processes.runs import started
from tests.engine.workers.processes.transactions import batches, in_memory

MESSAGES = 5000


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_the_counts_of_a_rich_spout_are_exact(tmp_path: Path, workers: int) -> None:
    topology = counting(generated(MESSAGES), Marks(tmp_path))
    with started(topology, tmp_path, workers=workers, conf={"topology.max.spout.pending": 500}) as run:
        run.finish()
        assert run.handle.state("count") == counts_of(MESSAGES)
        assert run.runner.failed == []
        assert len(run.committed.txids) >= MESSAGES // 500


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_the_counts_of_batches_are_exact_with_several_pending(tmp_path: Path, workers: int) -> None:
    topology = batches(in_memory(MESSAGES, 100), Marks(tmp_path))
    with started(topology, tmp_path, workers=workers, conf={"topology.max.spout.pending": 4}) as run:
        run.finish()
        assert run.handle.state("count") == counts_of(MESSAGES)
        assert len(run.committed.txids) == MESSAGES // 200


@pytest.mark.slow
def test_the_counts_of_files_are_exact(tmp_path: Path) -> None:
    lines = [[f"word-{number % 7} word-{number % 5}" for number in range(each, each + 400)] for each in range(5)]
    folder = write_lines(tmp_path / "lines", lines)
    with started(batches(FilesTransactionalSpout(str(folder)), Marks(tmp_path)), tmp_path) as run:
        run.finish()
        expected = Counter(word for each in lines for line in each for word in line.split())
        assert run.handle.state("count") == dict(expected)
