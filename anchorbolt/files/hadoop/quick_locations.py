"""Opens locations for the check before a run, where Hadoop says within seconds that a file system does not answer.

By itself Hadoop tries again for minutes, at each call, and the check has no say in it. The check waits on its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from anchorbolt.files.hadoop.hadoop_errors import hadoop_errors
from anchorbolt.files.hadoop.hadoop_locations import HadoopLocations
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.files.paths import uri_of

_SECONDS = 15  # the least that S3A takes for a timeout
_SETTINGS = {  # in place of `{}` comes the bucket: its own settings count more than those of all buckets
    "fs.s3a.bucket.{}.retry.limit": "0",
    "fs.s3a.bucket.{}.retry.throttle.limit": "0",
    "fs.s3a.bucket.{}.attempts.maximum": "0",
    "fs.s3a.bucket.{}.connection.establish.timeout": f"{_SECONDS}s",
    "fs.s3a.bucket.{}.connection.timeout": f"{_SECONDS}s",
    "fs.s3a.bucket.{}.connection.request.timeout": f"{_SECONDS}s",
    "ipc.client.connect.timeout": str(_SECONDS * 1000),
    "ipc.client.connect.max.retries.on.timeouts": "0",
    "ipc.client.rpc-timeout.ms": str(_SECONDS * 1000),
}


@contextmanager
def quick_locations(session: SparkSession) -> Iterator[HadoopLocations]:
    """Yield locations with file systems of their own, and close these at the end: Spark's keep the user's settings."""
    hadoop = _QuickHadoop(session)
    try:
        yield HadoopLocations(session, hadoop)
    finally:
        hadoop.close()


class _QuickHadoop(Hadoop):
    def __init__(self, session: SparkSession) -> None:
        super().__init__(session)
        self._opened: dict[str, Any] = {}

    def file_system(self, location: str) -> Any:
        uri = uri_of(location)
        if uri is None:
            return super().file_system(location)
        if uri.root not in self._opened:
            for name, value in _SETTINGS.items():
                self.configuration.set(name.format(uri.authority), value)
            opened = self.fs.FileSystem.newInstance(self.path(location).toUri(), self.configuration)
            self._opened[uri.root] = opened
        return self._opened[uri.root]

    def close(self) -> None:
        for each in self._opened.values():
            with suppress(OSError), hadoop_errors():
                each.close()
