"""The Spark session of the engine's tests."""

from tests.engine.spark.conftest import spark as spark
