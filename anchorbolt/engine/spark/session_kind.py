"""Refuses a session over Spark Connect, or an object that is not a session, before it is used."""

import os

from pyspark.sql import SparkSession

from anchorbolt.errors import ConfigError

_CONNECT = (
    "Anchorbolt does not run over Spark Connect: it drives the waves from the process that submits the topology, and "
    "Spark Connect would run them in its server. "
)
_USE = "Use a classic session: SparkSession.builder.master(…).getOrCreate(), or a job run by spark-submit."


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
    """Raise `ConfigError` if the environment makes PySpark build sessions of Spark Connect."""
    if "SPARK_REMOTE" in os.environ:
        key = "SPARK_REMOTE"
        raise ConfigError(f"the environment variable {key} is set. {_CONNECT}Unset it. {_USE}", key=key)
