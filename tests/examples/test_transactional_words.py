"""`examples/transactional_words`: both databases against a plain count, on both engines, and under kills."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import TopologyError
from anchorbolt.testing import CrashRunner, Fault, FaultPoint, LocalCluster
from tests.engine.jobs import finished
from tests.examples.conftest import EXAMPLES

EXAMPLE = EXAMPLES / "transactional_words"
LINES = [f"to be {number % 40} or not to be {number % 7}" for number in range(500)]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of the example."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("job", "lines", "tables"):  # names that others may use, too
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    return import_module


def append(folder: Path, partition: int, lines: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / f"{partition}.txt").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def conf_of(folder: Path) -> dict[str, Any]:
    return {
        "words.folder": str(folder / "in"),
        "words.database": str(folder / "words.sqlite"),
        "buckets.database": str(folder / "buckets.sqlite"),
    }


def check(example: Callable[[str], Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert example("check").main() == 0


def test_both_databases_are_exact_while_files_and_lines_are_added(
    example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster()
    for partition, lines in ((0, LINES), (1, LINES[:77]), (0, LINES[:3]), (2, [])):
        append(tmp_path / "in", partition, lines)
        finished(example("job").topology(conf_of(tmp_path)), cluster=cluster)
        check(example, tmp_path, monkeypatch)


def test_a_try_that_failed_between_the_two_databases_counts_once(
    example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, failures = example("job"), [ConnectionError("the database of the buckets is away")]
    real = job.UpdateBuckets.finish_batch

    def finish_batch(self: Any) -> None:
        if self.attempt.txid == 2 and failures:
            raise failures.pop()
        real(self)

    monkeypatch.setattr(job.UpdateBuckets, "finish_batch", finish_batch)
    append(tmp_path / "in", 0, LINES * 5)
    append(tmp_path / "in", 1, LINES)
    handle = finished(job.topology(conf_of(tmp_path)))
    assert {report.txid: report.rounds for report in handle.reports} == {1: 1, 2: 2, 3: 1}
    check(example, tmp_path, monkeypatch)


def test_an_incomplete_line_waits_for_its_end(
    example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = LocalCluster()
    append(tmp_path / "in", 0, ["to be"])
    for text in ("or", " not\n"):
        with (tmp_path / "in" / "0.txt").open("a") as file:
            file.write(text)
        finished(example("job").topology(conf_of(tmp_path)), cluster=cluster)
    check(example, tmp_path, monkeypatch)


def test_a_file_that_is_gone_is_refused(example: Callable[[str], Any], tmp_path: Path) -> None:
    append(tmp_path / "in", 0, LINES)
    append(tmp_path / "in", 1, LINES)
    cluster, topology = LocalCluster(), example("job").topology(conf_of(tmp_path))
    finished(topology, cluster=cluster)
    (tmp_path / "in" / "1.txt").unlink()
    append(tmp_path / "in", 0, ["one more"])
    with pytest.raises(TopologyError) as raised:
        finished(topology, cluster=cluster)
    assert raised.value.component == "lines"


def test_a_batch_whose_lines_are_gone_is_not_emitted_again(example: Callable[[str], Any], tmp_path: Path) -> None:
    append(tmp_path / "in", 0, ["to be"])
    emitter = example("lines").LinesEmitter(tmp_path / "in", 10)
    with pytest.raises(ValueError, match="is shorter now"):
        emitter.emit_partition_batch(None, None, 0, [0, 20])


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_on_spark_with_killed_workers_and_drivers_both_databases_are_exact(
    example: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for partition in (0, 1):
        append(folder / "in", partition, LINES * 8)
    conf = {**conf_of(folder), "topology.max.spout.pending": 2}
    job = f"{EXAMPLE / 'job.py'}:topology"
    report = CrashRunner(job, folder, conf=conf, arguments=["--master", "local[2]"]).run(
        Fault(FaultPoint.TASK_EXECUTED, component="split", txid=1),  # a worker in the processing phase
        Fault(FaultPoint.TASK_PREPARED, component="words", txid=3, nth=3),  # one that has written its words
        Fault(FaultPoint.ROUND_ENDED, txid=4),  # the driver, when both databases are written and nothing is decided
    )
    assert report.struck == report.faults
    check(example, folder, monkeypatch)
