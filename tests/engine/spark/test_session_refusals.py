"""A wrong master and a missing Java are refused before a JVM is started."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine.spark.session import build_session
from anchorbolt.errors import ConfigError, PlatformError


@pytest.mark.parametrize("master", ["foo", "", "spark:/host:7077", "local[", "http://host"])
def test_a_master_that_is_none_is_named(master: str) -> None:
    with pytest.raises(ConfigError, match="is not a Spark master") as caught:
        build_session("refused", master)
    assert repr(master) in str(caught.value)


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)  # another test's, which would be taken
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match=f"JAVA_HOME is {tmp_path}, which has no bin/java"):
        build_session("refused", "local[1]")
