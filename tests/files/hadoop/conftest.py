"""A Spark session, and real file systems that it knows how to reach."""

from tests.engine.spark.conftest import spark as spark
from tests.engine.spark.locations.conftest import hdfs as hdfs
from tests.engine.spark.locations.conftest import s3 as s3
