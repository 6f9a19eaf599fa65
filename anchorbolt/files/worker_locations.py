"""Opens locations without a JVM: on workers, in `LocalCluster`, and in the commands that read a location."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from anchorbolt.files.folder import Folder
from anchorbolt.files.hadoop_settings import store_of
from anchorbolt.files.local_folder import LocalFolder
from anchorbolt.files.paths import BaseLocation, local_path, qualified, uri_of
from anchorbolt.files.remote_folder import RemoteFolder
from anchorbolt.files.stores import Store


@dataclass(frozen=True)
class WorkerLocations:
    """See `Locations`. Immutable; can be pickled, with the secrets of its stores.

    Attributes:
        base: The location of paths without a scheme.
        stores: By the root of a file system. Any other file system is opened with the settings of the environment.
    """

    base: BaseLocation = field(default_factory=BaseLocation.local)
    stores: tuple[tuple[str, Store], ...] = ()

    def qualified(self, location: str) -> str:
        return qualified(location, self.base)

    def open(self, location: str) -> Folder:
        location = self.qualified(location)
        path = local_path(location)
        if path is not None:
            return LocalFolder(location, path)
        uri = uri_of(location)
        assert uri is not None, "a location that is not local has a scheme"
        store = dict(self.stores).get(uri.root) or store_of(location, _unset, _unset, _user())
        return RemoteFolder(location, uri, store)

    def for_workers(self, places: Iterable[str]) -> "WorkerLocations":
        return self


def _user() -> str:
    return os.environ.get("HADOOP_USER_NAME") or os.environ.get("USER") or ""


def _unset(name: str) -> None:
    return None


def open_folder(location: str) -> Folder:
    """Open a location with the settings of this process and its environment. Creates nothing. Raises `ConfigError`."""
    return WorkerLocations().open(location)
