"""Files whose paths look like patterns: each row counts once, or the batch is refused and can be run later.

And columns of maps, which bolts get as dicts.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from anchorbolt.engine import RunHandle, SparkCluster
from anchorbolt.errors import WaveFailed
from anchorbolt.spouts import StreamSpout
from anchorbolt.streams import Tuple
from tests.engine.jobs import StatefulBolt, chain, kept_in

NAMES = ["a.txt", "b[1].txt", "c{1,2}.txt", "d*.txt", "e?.txt", "f\\g.txt", "[h.txt", "i}.txt", "j 100%#.txt"]


class CountRows(StatefulBolt):
    """Counts the texts of its tuples' values."""

    def execute(self, tup: Tuple) -> None:
        self.count(repr(tup.values))
        self.collector.ack(tup)


class Job:
    """A job that counts rows of a source."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.folder = folder
        (folder / "in").mkdir()

    def write(self, *names: str) -> None:
        """Write files, with their names in them."""
        for name in names:
            path = self.folder / "in" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{name}\n")

    def run(self, source: Callable[[SparkSession], DataFrame]) -> RunHandle:
        """Run the job until the source is empty."""
        conf = kept_in(self.folder)
        cluster = SparkCluster(self._spark)
        handle = cluster.submit(
            chain("read_twice", {"rows": StreamSpout(source, fields=["row"]), "count": CountRows()}),
            conf,
            until_empty=True,
        )
        handle.await_termination(240)
        return handle

    def text(self, pattern: str = "", prefix: str = "", **options: Any) -> Callable[[SparkSession], DataFrame]:
        location = f"{prefix}{self.folder / 'in'}{pattern}"
        return lambda spark: spark.readStream.options(**options).text(location)


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def once(*names: str) -> dict[str, int]:
    return {repr((name,)): 1 for name in names}


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_batch_that_spark_would_read_twice_is_refused_and_read_once_with_the_option_that_the_error_names(
    job: Job, prefix: str
) -> None:
    job.write(*NAMES)
    with pytest.raises(WaveFailed, match="recursiveFileLookup") as refused:
        job.run(job.text(prefix=prefix))
    assert any(name in refused.value.message for name in NAMES[1:-1])
    job.write("late[2].txt")
    handle = job.run(job.text(prefix=prefix, recursiveFileLookup=True))
    assert handle.state("count") == once(*NAMES, "late[2].txt")


def test_files_that_are_renamed_after_the_refusal_are_missed_and_read_once_after_they_are_put_back(job: Job) -> None:
    job.write("a.txt", "b[1].txt")
    with pytest.raises(WaveFailed, match="recursiveFileLookup"):
        job.run(job.text())
    (job.folder / "in" / "b[1].txt").rename(job.folder / "b1.txt")
    with pytest.raises(WaveFailed, match="are gone"):
        job.run(job.text())
    (job.folder / "b1.txt").rename(job.folder / "in" / "b[1].txt")
    assert job.run(job.text(recursiveFileLookup=True)).state("count") == once("a.txt", "b[1].txt")


def test_a_folder_whose_name_looks_like_a_pattern(job: Job) -> None:
    job.write("x [1]/a.txt", "x [1]/b.txt")
    with pytest.raises(WaveFailed, match="recursiveFileLookup"):
        job.run(job.text("/*"))
    handle = job.run(job.text("/*", recursiveFileLookup=True))
    assert handle.state("count") == once("x [1]/a.txt", "x [1]/b.txt")


def test_a_batch_of_one_file_is_read_rightly(job: Job) -> None:
    job.write(*NAMES)
    assert job.run(job.text(maxFilesPerTrigger=1)).state("count") == once(*NAMES)


def test_names_that_spark_reads_rightly_are_not_refused(job: Job) -> None:
    names = ["a b.txt", "50%.txt", "a#b.txt", "plus+.txt", "ümlaut.txt", "%5B.txt", "^$!().txt", "-,;'&=@.txt"]
    job.write(*names)
    assert job.run(job.text()).state("count") == once(*names)


def test_folders_of_partition_columns_are_read_rightly(job: Job) -> None:
    job.write("d=[1]/a.txt", "d=2/b.txt")
    handle = job.run(lambda spark: spark.readStream.text(str(job.folder / "in")).select("value"))
    assert handle.state("count") == once("d=[1]/a.txt", "d=2/b.txt")


def test_maps_are_dicts_in_bolts_at_any_depth(job: Job) -> None:
    rows = [{"m": {"x": 1}, "l": [{"y": 2}, None], "s": {"m": {"z": None}, "n": 1}}, {"m": {}, "l": [], "s": None}, {}]
    (job.folder / "in" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def source(spark: SparkSession) -> DataFrame:
        kinds = "m map<string,int>, l array<map<string,int>>, s struct<m:map<string,int>,n:int>"
        read = spark.readStream.schema(kinds).json(str(job.folder / "in"))
        return read.select(F.struct("m", "l", "s").alias("row"))

    expected = [{"m": None, "l": None, "s": None} | row for row in rows]
    assert job.run(source).state("count") == {repr((row,)): 1 for row in expected}
