"""Every kind of folder does the same: on a disk, by Hadoop, without a JVM; locations as Hadoop reads them."""

import io
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from anchorbolt.errors import ConfigError
from anchorbolt.files import FileSystemGone, Folder, Locations, WorkerLocations, join
from anchorbolt.files.hadoop.hadoop_folder import HadoopFolder
from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.files.paths import BaseLocation, local_path, qualified
from tests.servers.s3_server import S3Server

KINDS = (
    "disk",
    "hadoop-disk",
    *(pytest.param(name, marks=pytest.mark.thorough) for name in ("hdfs", "hdfs-task", "s3", "s3-task")),
)
Open = Callable[[str], Folder]
"""Opens a folder by its name; all are below one location."""


class _HadoopOnDisk:
    """The driver's folders by Hadoop, on a local disk: any file system of Hadoop's."""

    def __init__(self, spark: SparkSession) -> None:
        self._hadoop = Hadoop(spark)

    def open(self, location: str) -> HadoopFolder:
        return HadoopFolder(self._hadoop, location)


@pytest.fixture(params=KINDS)
def open_below(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    kind: str = request.param
    if kind == "disk":
        return lambda name: WorkerLocations().open(str(tmp_path / name))
    if kind == "hadoop-disk":
        on_disk = _HadoopOnDisk(request.getfixturevalue("spark"))
        return lambda name: on_disk.open(join(tmp_path.as_uri(), name))
    server = request.getfixturevalue(kind.partition("-")[0])
    root = server.uri if kind.startswith("hdfs") else server.new_bucket()
    below = join(root, f"tests/{uuid.uuid4().hex}")
    locations: Locations = HadoopLocations(request.getfixturevalue("spark"))
    if kind.endswith("task"):
        locations = pickle.loads(pickle.dumps(locations.for_workers([below])))  # noqa: S301 - made here
    return lambda name: locations.open(join(below, name))


def write(folder: Folder, name: str, data: bytes) -> None:
    with folder.create(name) as file:
        file.write(data)


def test_what_is_written_is_read(open_below: Open) -> None:
    folder = open_below("a")
    assert folder.read("x/y") is None
    assert not folder.exists("x/y")
    write(folder, "x/y", b"0123456789")
    with folder.create_passing("x/z") as file:
        file.write(b"z" * 3_000_000)
        file.write(b"end")
    assert folder.read("x/y") == b"0123456789"
    assert folder.read("x/z") == b"z" * 3_000_000 + b"end"
    assert folder.exists("x/y")
    with folder.open("x/z") as file:
        assert file.read(5) == b"zzzzz"
        assert len(file.read()) == 2_999_998
    with pytest.raises(FileNotFoundError):
        folder.open("x/none").read()


def test_the_end_of_a_file_is_read_without_the_rest(open_below: Open) -> None:
    folder = open_below("a")
    assert folder.read_end("log", 3) is None
    write(folder, "log", b"0123456789")
    assert folder.read_end("log", 3) == b"789"
    assert folder.read_end("log", 100) == b"0123456789"


def test_a_file_is_replaced_and_nothing_stays_beside_it(open_below: Open) -> None:
    folder = open_below("a")
    for content in (b"first", b"second", b""):
        folder.replace("anchorbolt/decision-1", content)
        assert folder.read("anchorbolt/decision-1") == content
    assert list(folder.names("anchorbolt")) == ["decision-1"]


def test_a_folder_lists_what_is_directly_in_it(open_below: Open) -> None:
    folder = open_below("a")
    assert list(folder.names("")) == []
    assert list(folder.names("none")) == []
    for name in ("f/b", "f/a file", "f/deeper/c"):
        write(folder, name, b"x")
    assert sorted(folder.names("f")) == ["a file", "b", "deeper"]
    assert list(folder.names("")) == ["f"]


def test_a_move_may_be_repeated_and_says_if_the_file_is_nowhere(open_below: Open) -> None:
    outbox, sink = open_below("outbox"), open_below("sink")
    write(outbox, "1-1/file", b"rows")
    source = join(outbox.location, "1-1/file")
    for _ in range(2):
        sink.move_in(source, "part-1")
        assert sink.read("part-1") == b"rows"
        assert not outbox.exists("1-1/file")
    with pytest.raises(FileNotFoundError):
        sink.move_in(source, "part-2")


def test_a_move_that_was_cut_off_after_the_copy_is_finished(open_below: Open) -> None:
    """As a crash leaves it where a rename is a copy and a removal."""
    outbox, sink = open_below("outbox"), open_below("sink")
    write(outbox, "file", b"rows")
    write(sink, "part-1", b"rows")
    sink.move_in(join(outbox.location, "file"), "part-1")
    assert sink.read("part-1") == b"rows"
    assert not outbox.exists("file")


def test_files_and_folders_are_removed_and_may_be_gone_already(open_below: Open) -> None:
    folder = open_below("a")
    for name in ("f/a", "f/b/c", "g"):
        write(folder, name, b"x")
    for name in ("f", "g", "f", "none"):
        folder.remove_tree(name)
    assert list(folder.names("")) == []
    assert folder.read("f/b/c") is None


def test_a_file_of_another_file_system_is_not_moved_in(open_below: Open, tmp_path: Path) -> None:
    folder = open_below("a")
    for source in ("hdfs://elsewhere:8020/file", "s3a://elsewhere/file", "gs://elsewhere/file"):
        with pytest.raises(ConfigError):
            folder.move_in(source, "file")


def test_a_replacement_that_is_cut_off_leaves_the_old_file(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _HadoopOnDisk(spark).open(tmp_path.as_uri())
    folder.replace("decision", b"old")

    def dies(self: Hadoop, origin: object, target: object) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(Hadoop, "rename_over", dies)
        with pytest.raises(OSError, match="killed"):
            folder.replace("decision", b"new")
    assert folder.read("decision") == b"old"
    assert list(folder.names("")) == ["decision"]


def test_a_bucket_that_does_not_exist_is_told_from_a_file_that_does_not(spark: SparkSession, s3: S3Server) -> None:
    folder = HadoopLocations(spark).open(f"s3a://{uuid.uuid4().hex}/a")
    with pytest.raises(FileSystemGone):
        folder.exists("b")


@pytest.mark.parametrize("location", ["abfss://box@host/a", "gs://bucket/a", "ofs://host/a", "other://one:1,two:2/a"])
def test_a_file_system_that_no_run_was_tested_on_is_refused(spark: SparkSession, location: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HadoopLocations(spark).open(location)
    assert caught.value.key == "topology.checkpoint.location"


class _Stream:
    """A stream of Hadoop's that fails, as when the network is lost."""

    def __init__(self, *, abortable: bool) -> None:
        self._abortable = abortable
        self.ended: list[str] = []

    def hasCapability(self, name: str) -> bool:  # noqa: N802 - a name of Hadoop's
        return self._abortable

    def write(self, data: bytes) -> None:
        raise OSError("connection reset")

    def abort(self) -> None:
        self.ended.append("abort")

    def close(self) -> None:
        self.ended.append("close")


@pytest.mark.parametrize(
    ("scheme", "abortable", "ended"), [("s3", False, []), ("s3a", True, ["abort"]), ("hdfs", False, ["close"])]
)
def test_an_object_store_does_not_show_what_was_written_in_part(scheme: str, abortable: bool, ended: list[str]) -> None:
    stream, hadoop = _Stream(abortable=abortable), Mock()
    fs = hadoop.file_system.return_value
    fs.getUri.return_value.getScheme.return_value = scheme
    fs.create.return_value = stream
    with pytest.raises(OSError, match="connection reset"):
        HadoopFolder(hadoop, f"{scheme}://bucket/a").replace("decision", b"new")
    assert stream.ended == ended


def test_a_large_file_is_read_in_few_calls_through_py4j() -> None:
    data, hadoop = b"z" * 3_000_000, Mock()
    read = hadoop.file_system.return_value.open.return_value.readNBytes
    read.side_effect = io.BytesIO(data).read
    assert HadoopFolder(hadoop, "hdfs://host/a").read("large") == data
    assert read.call_count <= 4


BASES = {
    "file:///": BaseLocation("", "/home/me"),
    "hdfs://node:8020": BaseLocation("hdfs://node:8020", "hdfs://node:8020/user/me"),
}
LOCATIONS = (
    *("out", "./out/", "a/../b", "/out", "/a//b/", "/x/../y", "/a b", "/a%20b", "/a#b", "/a:b", "/"),
    *("file:///tmp/a%20b", "file:/tmp/a?b", "file:///tmp/a#b", "file:/tmp/x/../y", "file:///a//b/"),
    *("s3a://b/a//b", "s3a://b/a/../b", "s3a://b//a", "s3a://b/a/", "s3a://b/", "s3a://b/a?b#c%20d"),
    *("hdfs://h/a/./b", "hdfs://h:1/a/../b", "hdfs:///a", "hdfs:/a", "abfss://box@host/a", "hdfs://[::1]:8020/a"),
)


@pytest.mark.parametrize("default", BASES)
def test_a_location_is_qualified_as_hadoop_does_it(spark: SparkSession, default: str) -> None:
    java: Any = spark._jvm
    uri, base = java.java.net.URI, BASES[default]
    directory = base.directory if base.root else f"file:{base.directory}"

    def of_hadoop(location: str) -> str:
        path = java.org.apache.hadoop.fs.Path(location)
        scheme = path.toUri().getScheme()
        file_system = default if scheme in (None, default.partition(":")[0]) else f"{scheme}:///"
        return str(path.makeQualified(uri(file_system), java.org.apache.hadoop.fs.Path(directory)).toString())

    def without_authority(text: str) -> str:
        scheme, colon, path = text.partition(":///")
        text = f"{scheme}:/{path}" if colon else text
        return text.removeprefix("file:") if not base.root else text

    expected = {location: without_authority(of_hadoop(location)) for location in LOCATIONS}
    assert {location: without_authority(qualified(location, base)) for location in LOCATIONS} == expected
    for location in (each for each in LOCATIONS if each.startswith("file:")):
        path = local_path(qualified(location, base))
        assert str(path) == java.org.apache.hadoop.fs.Path(location).toUri().getPath()


def test_a_relative_path_starts_where_spark_has_it_start(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java: Any = spark._jvm
    monkeypatch.chdir(tmp_path)
    path = java.org.apache.hadoop.fs.Path("out")
    of_spark = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).makeQualified(path)
    assert HadoopLocations(spark).qualified("out") == of_spark.toUri().getPath()
