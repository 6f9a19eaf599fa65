"""Locations as text: what Spark makes of a path, and which of two are on one file system."""

import re
from pathlib import Path

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.files.paths import BaseLocation, local_path, on_one_file_system, qualified

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
        ("s3a://bucket//a/./b/../c/", DISK, "s3a://bucket/a/c"),
        ("s3a://bucket", DISK, "s3a://bucket/"),
        ("hdfs://node:8020", HDFS, "hdfs://node:8020/"),
        ("s3a://bucket/", DISK, "s3a://bucket/"),
        ("S3A://Bucket/A", DISK, "s3a://Bucket/A"),
        ("abfss://box@account.dfs.core.windows.net/a", DISK, "abfss://box@account.dfs.core.windows.net/a"),
        ("hdfs://[::1]:8020/a", DISK, "hdfs://[::1]:8020/a"),
        ("other://one:1,two:2/a", DISK, "other://one:1,two:2/a"),
        ("/a//b/", DISK, "/a/b"),
        ("//a/b", DISK, "/a/b"),
        ("file:/a%20b?c#d", DISK, "/a%20b?c#d"),
        ("file:///a//../b/", HDFS, "file:///b"),
        ("/a//b/../c", HDFS, "hdfs://node:8020/a/c"),
        ("", HDFS, "hdfs://node:8020/user/me"),
        ("2024-01-01T10:00", DISK, "/home/me/2024-01-01T10:00"),
    ],
)
def test_a_location_is_qualified_as_spark_does_it(location: str, base: BaseLocation, expected: str) -> None:
    assert qualified(location, base) == expected
    assert qualified(expected, base) == expected


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("out", "out"),
        ("/a b", "/a b"),
        ("file:/a%20b", "/a%20b"),
        ("file:///a?b#c", "/a?b#c"),
        ("s3a://[b/x", None),
        ("C:/out", "C:/out"),
        ("hdfs://x/y", None),
    ],
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


@pytest.mark.parametrize(
    "location",
    ["s3a://[b/x", "hdfs://node/a?b", "hdfs:///a?b", "file://machine/a", "file:a", "out:a", "s3a:", "s3a://b c/x"],
)
def test_what_cannot_be_a_location_is_refused(location: str) -> None:
    with pytest.raises(ConfigError):
        qualified(location, DISK)


@pytest.mark.parametrize(
    "location",
    ["s3a://AKIAX:geheim@bucket/x", "s3a://AKIAX:ge/heim@bucket/x", "ftp://AKIAX:geheim@host:21/x", "s3a://AKIAX:ge/"],
)
def test_a_password_in_a_location_is_refused_and_not_shown(location: str) -> None:
    with pytest.raises(ConfigError, match="password") as caught:
        qualified(location, DISK)
    assert not {"AKIAX", "ge", "heim", "geheim"} & set(re.split(r"\W", caught.value.message))


def test_without_a_base_a_relative_path_starts_at_the_current_directory() -> None:
    assert qualified("out", BaseLocation()) == str(Path.cwd() / "out")
