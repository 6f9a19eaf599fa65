"""Locations are read as Hadoop's own `Path` reads them."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations
from anchorbolt.files.paths import BaseLocation, local_path, qualified

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
