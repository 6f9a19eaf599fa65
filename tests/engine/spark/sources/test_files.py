"""The files of a batch that are checked, as Spark's own log names them."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine.spark.sources import files as source_files
from anchorbolt.engine.spark.sources.files import SourceFiles
from anchorbolt.errors import WaveFailed
from anchorbolt.files import open_folder


@pytest.fixture
def check(tmp_path: Path, spark: SparkSession) -> SourceFiles:
    return SourceFiles(open_folder(str(tmp_path)), spark)


def offsets(*ends: int | str | None) -> bytes:
    lines = ["-" if end is None else json.dumps({"logOffset": end} if isinstance(end, int) else end) for end in ends]
    return "\n".join(["v1", "{}", *lines]).encode()


def log(folder: Path, source: int | str, name: str, *entries: tuple[int, Path]) -> None:
    path = folder / "sources" / str(source) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": file.as_uri(), "timestamp": 1, "batchId": number}) for number, file in entries]
    path.write_text("\n".join(["v1", *lines]))


def test_every_file_since_the_batch_before_is_looked_for_in_each_source(tmp_path: Path, check: SourceFiles) -> None:
    there, gone = tmp_path / "a file.txt", tmp_path / "gone.txt"
    there.touch()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_bytes(offsets("rate", 7))
    log(tmp_path, 1, "7", (7, gone))
    log(tmp_path, 1, "8", (8, there))
    check.check(5, offsets("rate", 8), txid=5)
    log(tmp_path, 1, "9.compact", (7, gone), (8, there), (9, there), (9, there))
    check.check(6, offsets("rate", 9), txid=6)
    log(tmp_path, 1, "10", (10, there))
    log(tmp_path, 1, "11", (11, gone))
    with pytest.raises(WaveFailed, match=r"are gone \(1 of 2\): .*gone\.txt") as error:
        check.check(7, offsets("rate", 11), txid=7)
    assert error.value.txid == 7


def test_a_first_batch_and_sources_of_other_kinds(tmp_path: Path, check: SourceFiles) -> None:
    check.check(0, b"", txid=0)
    check.check(0, b"v2\n{}", txid=0)
    check.check(0, offsets(None, "x"), txid=0)
    check.check(0, b"v1\n{}\nno json\n[1]\n" + b'{"logOffset": "x"}', txid=0)
    check.check(0, offsets(10**15), txid=0)
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b"v1\nno json")
    check.check(0, offsets(0), txid=0)
    log(tmp_path, 0, "0", (0, tmp_path / "gone"))
    with pytest.raises(WaveFailed):
        check.check(0, offsets(0), txid=0)


def test_files_that_may_be_missing_are_not_asked_for(tmp_path: Path, check: SourceFiles, spark: SparkSession) -> None:
    log(tmp_path, 0, "0", (0, tmp_path / "gone"))
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        check.check(0, offsets(0), txid=0)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_other_file_systems_are_asked_through_spark_and_in_the_first_batch_only(
    tmp_path: Path, check: SourceFiles, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.setattr(source_files, "local_path", lambda location: None)
    there = tmp_path / "a file.txt"
    there.touch()
    log(tmp_path, 0, "0", (0, tmp_path / "gone"))
    log(tmp_path, 0, "1", (1, there))
    log(tmp_path, 0, "2", (2, tmp_path / "gone"))
    with pytest.raises(WaveFailed):
        SourceFiles(open_folder(str(tmp_path)), spark).check(0, offsets(0), txid=0)
    check.check(1, offsets(1), txid=1)
    check.check(2, offsets(2), txid=2)


def test_the_files_of_named_sources_are_found_in_whatever_order_they_are_written(
    tmp_path: Path, check: SourceFiles
) -> None:
    there, gone = tmp_path / "a file.txt", tmp_path / "gone.txt"
    there.touch()
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_bytes(b'v2\n{}\nfiles:{"logOffset":7}\nlater:-\nrate:12')
    log(tmp_path, "files", "8", (8, there))
    check.check(5, b'v2\n{}\nrate:13\nadded:{"logOffset":0}\nfiles:{"logOffset":8}\nlater:-', txid=5)
    log(tmp_path, "later", "0", (0, gone))
    with pytest.raises(WaveFailed, match=r"are gone \(1 of 1\)"):
        check.check(6, b'v2\n{}\nlater:{"logOffset":0}\nfiles:{"logOffset":8}', txid=6)
