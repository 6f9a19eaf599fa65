"""How the tests start Spark's JVMs, which live for seconds: with little to compile, and with their classes archived.

    python -m tests.support.spark_jvm     # writes the archive for this environment, where there is none yet

Most of the processor time of a short run goes into loading 15,000 classes from 300 jars. Java maps them into memory
instead, where it has an archive of exactly this class path (https://openjdk.org/jeps/350), in which no folder may have
anything in it: so what the JVMs are told goes through `SPARK_SUBMIT_OPTS`, and there is no SPARK_CONF_DIR. An archive
that does not fit is passed over.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

# The optimising compiler takes a third of the time of so short a life, and does not pay for it.
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Java would tell in the job's output why it passes over an archive.
_QUIET = "-Xlog:disable"
_ARCHIVE = Path(sys.prefix, "spark-classes.jsa")


def java_options() -> str:
    """Return the options for each JVM of Spark's."""
    java = _QUICK_START
    if _ARCHIVE.exists() and " " not in str(_ARCHIVE):  # blanks end an option
        java += f" -XX:SharedArchiveFile={_ARCHIVE} {_QUIET}"
    return java


def environment(spark: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for a driver, with these settings of Spark.

    Raises:
        ValueError: A setting holds a blank, which would end it.
    """
    java = java_options()
    settings = {"spark.ui.enabled": "false", **(spark or {})}
    for key, value in settings.items():
        if any(character.isspace() for character in value):
            raise ValueError(f"{key}={value!r} cannot be handed to Spark by SPARK_SUBMIT_OPTS")
    options = " ".join(f"-D{key}={value}" for key, value in settings.items())
    return {
        "SPARK_SUBMIT_OPTS": f'{java} "-Dspark.executor.defaultJavaOptions={java}" {options}',
        "SPARK_LAUNCHER_OPTS": _QUICK_START,
    }


def _is_current() -> bool:
    jars = Path(str(metadata.distribution("pyspark").locate_file("pyspark/jars")))
    java = Path(os.environ.get("JAVA_HOME", ""), "release")
    made = _ARCHIVE.stat().st_mtime if _ARCHIVE.exists() else 0.0
    return made > max(path.stat().st_mtime for path in (jars, java) if path.exists())


def main() -> None:
    """Run a job, and keep the classes that its driver loaded."""
    if _is_current():
        return
    print("archiving Spark's classes, so that the tests' drivers start faster", flush=True)
    # Here, so that conftest does not import them, and PySpark with them, before it has set the environment.
    from tests.cli.command import run_arguments
    from tests.crash.job import write_waves

    started = time.monotonic()
    written = _ARCHIVE.with_name(f"{_ARCHIVE.name}.{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="anchorbolt-classes-") as folder:
        variables = {
            "SPARK_SUBMIT_OPTS": f"{_QUICK_START} -XX:ArchiveClassesAtExit={written} {_QUIET}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        write_waves(Path(folder), 1)
        location = f"topology.checkpoint.location={folder}/checkpoint"
        ended = subprocess.run(
            run_arguments("tests.crash.job:topology", "--until-empty", "--master", "local[2]", "--set", location),
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=600,
        )
    if ended.returncode != 0 or not written.exists():
        sys.exit(f"the job whose classes are archived ended with {ended.returncode}:\n{ended.stderr}")
    written.replace(_ARCHIVE)
    print(f"done in {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
