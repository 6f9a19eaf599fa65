"""Locations as text: what Spark makes of a path, and which of two are on one file system."""

from pathlib import Path

import pytest

from anchorbolt.util.locations.paths import BaseLocation, local_path, on_one_file_system, qualified

DISK = BaseLocation("", "/home/me")
HDFS = BaseLocation("hdfs://node:8020", "hdfs://node:8020/user/me")


@pytest.mark.parametrize(
    ("location", "base", "expected"),
    [
        ("out", DISK, "/home/me/out"),
        ("../out", DISK, "/home/out"),
        ("/out", DISK, "/out"),
        ("file:///out", DISK, "/out"),
        ("hdfs://other/out", DISK, "hdfs://other/out"),
        ("hdfs:///out", DISK, "hdfs:///out"),
        ("out", HDFS, "hdfs://node:8020/user/me/out"),
        ("./out/", HDFS, "hdfs://node:8020/user/me/out"),
        ("/out", HDFS, "hdfs://node:8020/out"),
        ("hdfs:///out", HDFS, "hdfs://node:8020/out"),
        ("hdfs:/out", HDFS, "hdfs://node:8020/out"),
        ("hdfs://other/out", HDFS, "hdfs://other/out"),
        ("s3a:///out", HDFS, "s3a:///out"),
        ("file:///out", HDFS, "file:///out"),
        ("s3a://bucket/a%20b?c#d", HDFS, "s3a://bucket/a%20b?c#d"),
    ],
)
def test_a_location_is_qualified_as_spark_does_it(location: str, base: BaseLocation, expected: str) -> None:
    assert qualified(location, base) == expected
    assert qualified(expected, base) == expected


@pytest.mark.parametrize(
    ("location", "path"),
    [("out", "out"), ("/a b", "/a b"), ("file:/a%20b", "/a b"), ("C:/out", "C:/out"), ("hdfs://x/y", None)],
)
def test_a_path_and_a_file_uri_are_local(location: str, path: str | None) -> None:
    assert local_path(location) == (None if path is None else Path(path))


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("/a", "/mnt/b", True),
        ("file:///a", "/b", True),
        ("hdfs://node:8020/a", "hdfs://node:8020/b", True),
        ("HDFS://node/a", "hdfs://node/b", True),
        ("hdfs://node:8020/a", "hdfs://other:8020/b", False),
        ("s3a://one/a", "s3a://other/a", False),
        ("s3a://one/a", "gs://one/a", False),
        ("/a", "hdfs://node/a", False),
    ],
)
def test_files_are_moved_within_one_file_system(first: str, second: str, together: bool) -> None:
    assert on_one_file_system(first, second) is together
    assert on_one_file_system(second, first) is together
