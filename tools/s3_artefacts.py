"""Find moto, the S3 server that the tests start, and Hadoop's client of S3 for Spark, or fetch both."""

from pathlib import Path

from maven_jars import JarList
from own_environment import MOTO
from progress import optional

CLIENT = JarList("hadoop-aws.txt", "hadoop-aws")


def ensure(*, log: Path) -> None:
    """Fetch the jars that are not cached, and install moto from its lock file if it is not.

    Outside CI a failure is only printed.

    Raises:
        SetUpError: in CI only: a jar cannot be fetched or is not the pinned one, or pip failed.
    """
    with optional("S3"):
        CLIENT.ensure(log=log)
        MOTO.ensure(log=log)


def moto_python() -> Path | None:
    """Return the Python of moto's environment, or None if moto is not installed yet."""
    return MOTO.python()
