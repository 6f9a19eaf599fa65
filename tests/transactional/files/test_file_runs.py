"""Topologies over a directory of files, on both engines."""

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import SerializationError, StateRegressed
from anchorbolt.transactional import FilesTransactionalSpout
from tests.transactional.conftest import Run
from tests.transactional.files.running import write
from tests.transactional.jobs import Values, batches, boom, values_topology


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "in"
    directory.mkdir()
    return directory


def numbers(directory: Path, file: int) -> range:
    """Write a file of a hundred numbers, and return them."""
    found = range(100 * file, 100 * file + 100)
    write(directory, f"{file}.txt", "".join(f"{number}\n" for number in found), 1000 + file)
    return found


def test_each_line_counts_once_although_batches_are_tried_again(
    run_on: Run, conf: dict[str, Any], directory: Path
) -> None:
    for file in range(6):
        numbers(directory, file)
    bolt = Values()
    bolt.raises = "finish_batch", 2, 1, boom
    spout = FilesTransactionalSpout(directory, take_files=2, take_bytes=None)
    handle = run_on(values_topology(spout, bolt, parallelism=2), max_spout_pending=2)
    assert batches(conf) == {txid: list(range(200 * (txid - 1), 200 * txid)) for txid in (1, 2, 3)}
    assert [report.txid for report in handle.reports] == [1, 2, 3]
    numbers(directory, 6)
    run_on(values_topology(spout, parallelism=3))
    assert batches(conf)[4] == list(range(600, 700))
    assert len(batches(conf)) == 4


def test_a_batch_whose_file_is_gone_is_read_when_the_file_is_back(
    run: Run, conf: dict[str, Any], directory: Path
) -> None:
    numbers(directory, 0)
    bolt = Values()
    bolt.raises = "finish_batch", 1, 99, boom
    spout = FilesTransactionalSpout(directory)
    with pytest.raises(Exception, match="boom"):
        run(values_topology(spout, bolt), max_batch_retries=0)
    (directory / "0.txt").unlink()
    numbers(directory, 1)  # the stored batch does not get it
    with pytest.raises(StateRegressed, match=r"0\.txt' is gone before its batch has committed"):
        run(values_topology(spout), max_batch_retries=0)
    numbers(directory, 0)
    run(values_topology(spout))
    assert batches(conf) == {1: list(range(100)), 2: list(range(100, 200))}


def test_a_line_that_is_not_utf8_ends_the_run(run: Run, directory: Path) -> None:
    write(directory, "a.txt", b"caf\xe9\n", 1000)
    with pytest.raises(SerializationError, match=r"a\.txt' has a line that is not UTF-8: byte 3 of the file"):
        run(values_topology(FilesTransactionalSpout(directory)), max_batch_retries=0)
