"""Opens locations on the driver with Spark's Hadoop configuration and credentials."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.sql import SparkSession

from anchorbolt.errors import ConfigError
from anchorbolt.files.folder import Folder
from anchorbolt.files.hadoop.hadoop_errors import hadoop_errors
from anchorbolt.files.hadoop.hadoop_folder import HadoopFolder
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.files.hadoop_settings import cannot_be_used, is_known, store_of
from anchorbolt.files.local_folder import LocalFolder
from anchorbolt.files.paths import BaseLocation, local_path, qualified, uri_of
from anchorbolt.files.worker_locations import WorkerLocations

_SECONDS = 15  # the shortest timeout that S3A accepts

_SETTINGS = {  # `{}` stands for the bucket: its own settings override the settings for all buckets
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


class HadoopLocations:
    """See `Locations`. A location on the local disk is opened without Hadoop."""

    def __init__(self, session: SparkSession, hadoop: Hadoop | None = None) -> None:
        """Use the Hadoop configuration of a session. Raises `ConfigError` if its `fs.defaultFS` cannot be used.

        Args:
            session: The session.
            hadoop: Opens file systems instead of the session's Hadoop, with its own settings.
        """
        self._hadoop = Hadoop(session) if hadoop is None else hadoop
        self.base = self._base()

    def qualified(self, location: str) -> str:
        return qualified(location, self.base)

    def open(self, location: str) -> Folder:
        location = self.qualified(location)
        path = local_path(location)
        if path is not None:
            return LocalFolder(location, path)
        if not is_known(location):
            raise cannot_be_used(location)
        try:
            return HadoopFolder(self._hadoop, location)
        except OSError as error:
            raise ConfigError(
                f"location {location!r} cannot be opened: {error}. Correct it; or give Spark the package and the "
                "settings of its file system, such as hadoop-aws and spark.hadoop.fs.s3a.…."
            ) from error

    def for_workers(self, places: Iterable[str]) -> WorkerLocations:
        stores = {}
        for place in map(self.qualified, places):
            uri = uri_of(place)
            if uri is not None and uri.root not in stores:
                try:
                    stores[uri.root] = store_of(place, self._get, self._get_secret, self._user())
                except OSError as error:
                    raise ConfigError(f"no credentials for {uri.root} can be read: {error}. Correct them.") from error
        return WorkerLocations(self.base, tuple(stores.items()))

    def _base(self) -> BaseLocation:
        fs, configuration = self._hadoop.fs.FileSystem, self._hadoop.configuration
        try:
            with hadoop_errors():
                default = fs.get(configuration)
                # Like Spark's, a relative path starts in the directory where Java was started: Python's may have
                # changed.
                directory = str(default.getWorkingDirectory().toString())
                if fs.getDefaultUri(configuration).getScheme() == "file":
                    return BaseLocation("", str(local_path(directory)))
                return BaseLocation(str(default.getUri().toString()), directory)
        except OSError as error:
            raise ConfigError(
                f"fs.defaultFS of Spark's Hadoop configuration is {self._get('fs.defaultFS')!r}, which cannot be used: "
                f"{error}. Correct it.",
                key="spark.hadoop.fs.defaultFS",
            ) from error

    def _get(self, name: str) -> str | None:
        found: str | None = self._hadoop.configuration.get(name)
        return found

    def _get_secret(self, name: str) -> str | None:
        with hadoop_errors():  # it may be in one of Hadoop's credential providers, such as a file
            characters = self._hadoop.configuration.getPassword(name)
        return None if characters is None else "".join(characters)

    def _user(self) -> str:
        with hadoop_errors():
            return str(self._hadoop.classes.security.UserGroupInformation.getCurrentUser().getShortUserName())


@contextmanager
def quick_locations(session: SparkSession) -> Iterator[HadoopLocations]:
    """Yield locations for the check before a run, where Hadoop reports within seconds that a file system is away.

    By default Hadoop retries each call for minutes, and the check cannot end that. The check waits by itself. These
    file systems are closed at the end: Spark's own keep the user's settings.
    """
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
