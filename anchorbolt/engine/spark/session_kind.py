"""Refuses a session over Spark Connect, and what is not a session at all, before anything is done with it."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from anchorbolt.errors import ConfigError

_CONNECT = (
    "Anchorbolt does not run over Spark Connect: it drives the waves from the process that submits the topology, and "
    "Spark Connect would run them in its server. "
)
_USE = "Use a classic session: SparkSession.builder.master(…).getOrCreate(), or a job run by spark-submit."

_OF_CONNECT = "sc://"  # how the address of a server starts; it may hold a token, so no message shows it
_REMOTE_ARGUMENT = re.compile(r"--remote\b|spark\.remote\b")
_REMOTE_DEFAULT = re.compile(r"^[ \t]*spark\.remote[ \t]*[ \t=:]", re.MULTILINE)


def check_session(session: object) -> None:
    """Raise `ConfigError` for a session of Spark Connect, and for an object that is not a Spark session."""
    if any(f"{each.__module__}.".startswith("pyspark.sql.connect.") for each in type(session).__mro__):
        raise ConfigError(f"the session given to SparkCluster is one of Spark Connect. {_CONNECT}{_USE}")
    if not isinstance(session, SparkSession):
        raise ConfigError(
            f"SparkCluster got a {type(session).__name__}, which is not a Spark session. {_USE} Without an argument, "
            "SparkCluster builds the session itself."
        )


def check_environment() -> None:
    """Raise `ConfigError` if the environment has PySpark build sessions of Spark Connect."""
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if name in os.environ:
            raise ConfigError(f"the environment variable {name} is set. {_CONNECT}Unset it. {_USE}", key=name)
    for name, value in (("SPARK_API_MODE", "connect"), ("SPARK_CONNECT_MODE", "1")):
        if os.environ.get(name, "").lower() == value:
            raise ConfigError(f"the environment variable {name} is {value!r}. {_CONNECT}Unset it.", key=name)


def check_master(master: str) -> None:
    """Raise `ConfigError` for the address of a server of Spark Connect."""
    if master.startswith(_OF_CONNECT):
        raise ConfigError(
            f"the master is the address of a Spark Connect server ({_OF_CONNECT}…). {_CONNECT}Use local[*], local[2], "
            "spark://HOST:PORT, yarn or k8s://…",
            key="master",
        )


def check_defaults() -> None:
    """Raise `ConfigError` if `spark.remote` is among what Spark reads when PySpark starts its JVM.

    That JVM would end at once, because it gets a master, too.
    """
    if _REMOTE_ARGUMENT.search(os.environ.get("PYSPARK_SUBMIT_ARGS", "")):
        raise ConfigError(
            f"the environment variable PYSPARK_SUBMIT_ARGS sets spark.remote. {_CONNECT}Remove it there. {_USE}",
            key="PYSPARK_SUBMIT_ARGS",
        )
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    defaults = Path(folder, "spark-defaults.conf")
    try:
        text = defaults.read_text(errors="replace")
    except OSError:  # the file is missing, or Spark itself says why it cannot be read
        return
    if _REMOTE_DEFAULT.search(text):
        raise ConfigError(f"{defaults} sets spark.remote. {_CONNECT}Remove it there. {_USE}", key="spark.remote")


def check_settings(get: Callable[[str], str | None]) -> None:
    """Raise `ConfigError` if the settings of the driver's JVM, those of spark-submit, ask for Spark Connect."""
    for key, asks, option in (
        ("spark.remote", get("spark.remote") is not None, "Give --master URL to spark-submit instead of --remote."),
        ("spark.api.mode", (get("spark.api.mode") or "").lower() == "connect", "Remove it."),
    ):
        if asks:
            raise ConfigError(
                f"the setting {key}, from spark-submit or spark-defaults.conf, asks for Spark Connect. {_CONNECT}"
                f"{option}",
                key=key,
            )
