"""The session's Hadoop configuration, with real file systems: HDFS and S3."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from tests.servers.hdfs_server import HdfsServer
from tests.servers.s3_server import S3Server


@contextmanager
def hadoop_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set settings of Hadoop for all sessions that read them from now on."""
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    before = {name: configuration.get(name) for name in settings}
    for name, value in settings.items():
        configuration.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            configuration.unset(name) if value is None else configuration.set(name, value)


@pytest.fixture
def hdfs(spark: SparkSession, hdfs_server: HdfsServer) -> Iterator[HdfsServer]:
    """An HDFS that the session knows how to reach."""
    with hadoop_settings(spark, hdfs_server.hadoop_conf):
        yield hdfs_server


@pytest.fixture
def s3(spark: SparkSession, s3_server: S3Server) -> Iterator[S3Server]:
    """An S3 that the session knows how to reach."""
    with hadoop_settings(spark, s3_server.hadoop_conf):
        yield s3_server
