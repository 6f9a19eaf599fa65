"""Spark's options in a configuration: what they mean to Spark, which are refused, and which source wins."""

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.config import load_conf
from anchorbolt.config.spark_options import NO_OPTIONS
from anchorbolt.errors import ConfigError


def settings(**given: Any) -> dict[str, str]:
    return load_conf({"spark": given}).settings.spark.settings()


def test_each_option_is_the_setting_that_spark_submit_makes_of_it() -> None:
    given = {
        "packages": "a:b:1,c:d:2",
        "jars": "one.jar,s3a://bucket/two.jar",
        "driver-memory": "4g",
        "executor-memory": "512m",
        "num-executors": 3,
        "executor-cores": 2,
        "conf": {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 8, "spark.executor.memory": "1g"},
    }
    assert settings(**given) == {
        "spark.jars.packages": "a:b:1,c:d:2",
        "spark.jars": "one.jar,s3a://bucket/two.jar",
        "spark.driver.memory": "4g",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "3",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
    }


def test_without_options_spark_has_its_defaults() -> None:
    assert load_conf({}).settings.spark == NO_OPTIONS
    assert load_conf({"spark": None}).settings.spark == NO_OPTIONS
    assert NO_OPTIONS.settings() == {}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"driver-memory": "4"}, "driver-memory"),
        ({"driver-memory": 4096}, "driver-memory"),
        ({"packages": "kafka"}, "packages"),
        ({"num-executors": 0}, "num-executors"),
        ({"executor-cores": "2"}, "executor-cores"),
        ({"conf": ["spark.ui.port=1"]}, "conf"),
        ({"conf": {"spark.ui.port": [1]}}, "conf"),
        ({"conf": {"ui.port": 1}}, "ui.port"),
        ({"conf": {"spark.master": "local[2]"}}, "--master"),
        ({"conf": {"spark.app.name": "mine"}}, "topology's name"),
        ({"driver_memory": "4g"}, "Did you mean 'spark.driver-memory'"),
        ({"package": "a:b:1"}, "Did you mean 'spark.packages'"),
        ("driver-memory", "mapping"),
    ],
)
def test_what_spark_could_not_use_is_refused_and_named(given: Any, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_conf({"spark": given})
    assert named in caught.value.message


@pytest.mark.parametrize(
    "name",
    ["spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "spark.ssl.keyPassword", "spark.my.token"],
)
def test_a_setting_that_holds_a_secret_is_refused_without_showing_it(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(conf={name: "hunter2"})
    assert caught.value.key == name
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["spark.authenticate.secret.file", "spark.security.credentials.token.enabled"])
def test_the_name_of_a_file_and_a_switch_are_no_secrets(name: str) -> None:
    assert settings(conf={name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("key", "option"),
    [
        ("spark.driver.memory", "--driver-memory"),
        ("spark.executor.instances", "--num-executors"),
        ("spark.jars.packages", "--packages"),
        ("spark.sql.shuffle.partitions", "--spark-conf spark.sql.shuffle.partitions"),
        ("spark.master", "--master"),
    ],
)
def test_a_setting_of_spark_among_the_keys_is_refused_with_the_option_that_does_it(key: str, option: str) -> None:
    for refused in ({"conf": {key: "4g"}}, {"overrides": [f"{key}=4g"]}):
        with pytest.raises(ConfigError) as caught:
            load_conf(**refused)  # type: ignore[arg-type]
        assert caught.value.key == key
        assert option in caught.value.message


def test_the_options_of_a_later_source_override_those_of_the_file_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "conf.yaml"
    file.write_text("spark:\n  driver-memory: 1g\n  jars: a.jar\n  conf: {spark.a: 1, spark.b: 2}\n")
    conf = load_conf({"spark": {"driver-memory": "2g", "conf": {"spark.b": 3}}}, file=file)
    assert conf.settings.spark.settings() == {
        "spark.driver.memory": "2g",
        "spark.jars": "a.jar",
        "spark.a": "1",
        "spark.b": "3",
    }
