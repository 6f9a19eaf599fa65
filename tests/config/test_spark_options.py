"""Spark's options in a configuration: what they mean to Spark, and which source wins."""

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
    "name",
    ["spark.authenticate.secret.file", "spark.security.credentials.token.enabled", "spark.executorEnv.TOKEN_FILE"],
)
def test_the_name_of_a_file_and_a_switch_are_no_secrets(name: str) -> None:
    assert settings(conf={name: "x"}) == {name: "x"}


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


@pytest.mark.parametrize(
    "options",
    [
        {"conf": {"spark.hadoop.fs.azure.account.key.mine.example": "canary-1"}},
        {"conf": {"spark.hadoop.fs.gs.auth.service.account.private.key": "canary-1"}},
        {"conf": {"spark.executorEnv.DB_PWD": "canary-1"}},
        {"conf": {"spark.jars.repositories": "https://user:canary-1@example.com/"}},
        {"jars": "https://user:canary-1@example.com/a.jar"},
    ],
)
def test_a_secret_that_java_would_get_as_an_argument_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(**options)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize("name", ["spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions"])
def test_a_secret_within_javas_options_is_refused_and_may_be_in_a_file_of_arguments(name: str, tmp_path: Path) -> None:
    options = "-Xss4m -Djavax.net.ssl.trustStorePassword=canary-1"
    file = tmp_path / "conf.yaml"
    file.write_text(f"spark: {{conf: {{{name}: '{options}'}}}}")
    for given in ({"file": file}, {"conf": {"spark": {"conf": {name: options}}}}):
        with pytest.raises(ConfigError, match="give @FILE here") as refused:
            load_conf(**given)
        assert refused.value.key == name
        assert "canary" not in str(refused.value)
    allowed = "@/etc/java.args -Djavax.net.ssl.trustStore=/etc/trust -Dmy.passwordFile=/etc/password"
    assert settings(conf={name: allowed}) == {name: allowed}


def test_a_secret_within_another_setting_of_spark_belongs_to_its_defaults() -> None:
    with pytest.raises(ConfigError, match=r"spark-defaults\.conf"):
        settings(conf={"spark.hadoop.my.url": "jdbc:postgresql://h/db?user=a&password=canary-1"})
