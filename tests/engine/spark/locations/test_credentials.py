"""The engine accesses file systems with the settings of the user's own session."""

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine.spark.session import engine_session
from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.util.secret import Secret


@pytest.fixture
def users_session(spark: SparkSession) -> SparkSession:
    """A session on which settings were set while it ran; it shares Spark with the other tests."""
    session = spark.newSession()
    session.conf.set("fs.s3a.access.key", "mine")
    session.conf.set("fs.s3a.secret.key", "geheim")
    session.conf.set("dfs.http.policy", "HTTPS_ONLY")
    session.conf.set("spark.sql.shuffle.partitions", "7")
    return session


def test_settings_of_hadoop_that_were_set_on_the_session_are_the_engines_too(users_session: SparkSession) -> None:
    session = engine_session(users_session)
    configuration = Hadoop(session).configuration
    assert configuration.get("fs.s3a.access.key") == "mine"
    assert configuration.get("dfs.http.policy") == "HTTPS_ONLY"
    [(_, store)] = HadoopLocations(session).for_workers(["s3a://bucket/a"]).stores
    assert dict(store.options)["secret_key"] == Secret("geheim")


def test_other_settings_of_the_session_stay_there(users_session: SparkSession) -> None:
    session = engine_session(users_session)
    assert session.conf.get("spark.sql.shuffle.partitions") != "7"
    assert users_session.conf.get("spark.sql.adaptive.enabled") == "true"
