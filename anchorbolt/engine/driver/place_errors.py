"""What the check of a run's places says of one that cannot be used: the problem, and what to set."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from anchorbolt.engine.task.probe import Cause, cause_of
from anchorbolt.errors import ConfigError, LocationUnavailable
from anchorbolt.files.paths import uri_of

CANNOT_WRITE = "cannot be written by the driver"

_S3 = ("s3a", "s3")


class Place(NamedTuple):
    """A place that a run writes to."""

    location: str  # qualified
    what: str  # what it is for the user
    key: str  # the setting that names it; empty if it is the argument of a sink


@contextmanager
def using(place: Place, problem: str = CANNOT_WRITE, *, waits: bool = True) -> Iterator[None]:
    """Raise what `failure` returns for an `OSError` of the driver; without `waits`, never `LocationUnavailable`."""
    try:
        yield
    except OSError as error:
        cause = cause_of(error)
        if cause is Cause.AWAY and not waits:
            cause = Cause.REFUSED
        raise failure(place, f"{problem}: {error}", cause) from error


def failure(place: Place, problem: str, cause: str = Cause.REFUSED) -> ConfigError | LocationUnavailable:
    """Return the error for a place that cannot be used: `LocationUnavailable` if that may change by waiting."""
    begun = f"{place.what}, {place.location}, {problem}."
    if cause == Cause.AWAY:
        return LocationUnavailable(
            f"{begun} See whether its servers run and can be reached, or name another location. Nothing was started."
        )
    return ConfigError(f"{begun} {_advice(place, cause)} Nothing was started.", key=place.key or None)


def _advice(place: Place, cause: str) -> str:
    another = f"set {place.key} to" if place.key else "give the sink"
    if cause == Cause.GONE:
        return f"Create the bucket, or {another} a location in another one."
    uri = uri_of(place.location)
    if cause == Cause.ACCESS and uri is not None and uri.scheme in _S3:
        return (
            "Set keys that may read, write and delete there, in spark-defaults.conf: fs.s3a.access.key and "
            "fs.s3a.secret.key, or fs.s3a.aws.credentials.provider, each with spark.hadoop. before its name. Those of "
            f"the bucket, fs.s3a.bucket.{uri.authority}.…, count more. Or {another} a location in another bucket."
        )
    if cause == Cause.NO_WEB_SERVER:
        return (
            "The driver reaches this HDFS, but no task does, because tasks speak WebHDFS. Set that setting, with "
            "spark.hadoop. before its name, to host:port of the NameNode's web server. It is not read if fs.defaultFS "
            "names another HDFS."
        )
    return (
        f"{another[0].upper()}{another[1:]} a location that the driver and every machine that runs tasks can write: a "
        "URI such as hdfs: or s3a:, or a directory that is mounted on all of them."
    )
