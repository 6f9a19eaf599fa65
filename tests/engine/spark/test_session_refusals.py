"""A wrong master, a missing Java and options that cannot be used are refused before a JVM is started."""

from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from anchorbolt.config.spark_options import SparkOptions
from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.session import build_session
from anchorbolt.errors import ConfigError, PlatformError
from tests.engine.jobs import feeder, kept_in, word_count


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide another test's session, which would be taken."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


@pytest.mark.parametrize("master", ["foo", "", "spark:/host:7077", "local[", "http://host"])
def test_a_master_that_is_none_is_named(master: str) -> None:
    with pytest.raises(ConfigError, match="is not a Spark master") as caught:
        build_session("refused", master)
    assert repr(master) in str(caught.value)


@pytest.mark.usefixtures("no_session")
def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        build_session("refused", "local[1]")


@pytest.mark.usefixtures("no_session")
def test_a_jar_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    missing = str(tmp_path / "missing.jar")
    with pytest.raises(ConfigError) as caught:
        build_session("refused", "local[1]", SparkOptions(jars=missing))
    assert missing in caught.value.message


@pytest.mark.usefixtures("no_session")
def test_options_are_refused_with_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(ConfigError) as caught:
        build_session("refused", "local[1]", SparkOptions(driver_memory="1g"))
    assert caught.value.key == "spark"


@pytest.mark.usefixtures("no_session")
def test_a_store_that_refuses_is_named_before_spark_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # has no Java
    (tmp_path / "state").touch()
    with pytest.raises(ConfigError) as caught:
        SparkCluster(master="local[1]").submit(word_count(feeder()), kept_in(tmp_path))
    assert str(tmp_path / "state") in caught.value.message


@pytest.mark.slow
def test_options_are_refused_beside_a_session_of_the_users_own(spark: SparkSession) -> None:
    topology = word_count(feeder())
    for cluster in (SparkCluster(spark), SparkCluster()):
        with pytest.raises(ConfigError) as caught:
            cluster.submit(topology, {"spark": {"driver-memory": "1g"}})
        assert caught.value.key == "spark"
        assert "spark.driver.memory" in caught.value.message


def session_of_connect() -> object:
    """Return an object of a class that looks like Spark Connect's, whose own needs gRPC."""
    return type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()


@pytest.mark.parametrize(
    "session", [session_of_connect(), "local[2]", 7, SparkSession.builder], ids=["connect", "text", "number", "builder"]
)
def test_what_is_not_a_classic_session_is_refused_at_submit_with_what_to_use(session: Any, tmp_path: Path) -> None:
    (tmp_path / "state").touch()  # a store that would be refused later
    with pytest.raises(ConfigError) as caught:
        SparkCluster(session).submit(word_count(feeder()), kept_in(tmp_path))
    assert "SparkSession.builder.master" in caught.value.message
    assert ("Spark Connect" in caught.value.message) == (type(session).__module__ == "pyspark.sql.connect.session")


def test_an_environment_that_asks_for_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(ConfigError) as caught:
        build_session("refused", "local[1]")
    assert caught.value.key == "SPARK_REMOTE"


@pytest.mark.parametrize("name", ["spark.remote", "spark.api.mode"])
def test_an_option_that_asks_for_spark_connect_is_refused(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SparkOptions(conf={name: "sc://host"})
    assert caught.value.key == name


def test_the_address_of_a_spark_connect_server_is_no_master_and_its_token_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        build_session("refused", "sc://host:15002/;token=abc")
    assert caught.value.key == "master"
    assert "abc" not in caught.value.message
