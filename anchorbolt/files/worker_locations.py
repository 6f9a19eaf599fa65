"""Opens locations without a JVM: on workers, in `LocalCluster`, and in the commands that read a location."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from anchorbolt.files.folder import Folder
from anchorbolt.files.hadoop_settings import store_of
from anchorbolt.files.local_folder import LocalFolder, different_file_systems
from anchorbolt.files.paths import BaseLocation, Uri, join, local_path, qualified, uri_of
from anchorbolt.files.stores import Store, open_store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class RemoteFolder:
    """See `Folder`. These file systems create parent folders themselves."""

    def __init__(self, location: str, uri: Uri, store: Store) -> None:
        """Name `location`; `uri` has its parts. The first use opens the file system.

        It raises `ConfigError` if a library is missing or refuses the settings.
        """
        self.location = location
        self._uri = uri
        self._root = f"{store.prefix}{uri.path}"
        self._is_object_store = store.kind != "webhdfs"
        self._store = store

    @property
    def _fs(self) -> FileSystem:
        return open_store(self._store)

    def read(self, name: str) -> bytes | None:
        try:
            with self._fs.open_input_stream(self._at(name)) as stream:
                data: bytes = stream.read()
        except FileNotFoundError:
            return None
        return data

    def read_end(self, name: str, size: int) -> bytes | None:
        try:
            with self._fs.open_input_file(self._at(name)) as file:
                file.seek(max(0, file.size() - size))
                data: bytes = file.read()
        except FileNotFoundError:
            return None
        return data

    def replace(self, name: str, data: bytes) -> None:
        # An object store shows a file only once it is closed, and then completely.
        written = name if self._is_object_store else f"{name}.tmp"
        with self.create(written) as stream:
            stream.write(data)
        if not self._is_object_store:
            self._rename_over(self._at(written), self._at(name))

    def create(self, name: str) -> BinaryIO:
        stream: BinaryIO = self._fs.open_output_stream(self._at(name))
        return stream

    def create_passing(self, name: str) -> BinaryIO:
        return self.create(name)

    def open(self, name: str) -> BinaryIO:
        stream: BinaryIO = self._fs.open_input_stream(self._at(name))
        return stream

    def exists(self, name: str) -> bool:
        return self._kind(self._at(name)) != "NotFound"

    def move_in(self, source: str, name: str) -> None:
        uri = uri_of(source)
        if uri is None or uri.root != self._uri.root:
            raise different_file_systems(source, self.location)
        origin = self._root.removesuffix(self._uri.path) + uri.path
        if self._kind(origin) != "NotFound":
            self._rename_over(origin, self._at(name))
        elif not self.exists(name):
            raise FileNotFoundError(source)

    def remove_tree(self, name: str) -> None:
        kind = self._kind(self._at(name))
        if kind == "Directory":
            self._fs.delete_dir(self._at(name))
        elif kind != "NotFound":
            self._fs.delete_file(self._at(name))

    def names(self, name: str) -> Iterator[str]:
        from pyarrow.fs import FileSelector

        try:
            found = self._fs.get_file_info(FileSelector(self._at(name), allow_not_found=True))
        except FileNotFoundError:  # removed meanwhile
            return
        for info in found:
            yield info.base_name

    def _rename_over(self, origin: str, target: str) -> None:
        """Move a file. On HDFS by WebHDFS: its rename has no effect if the target exists, or its folder does not."""
        if not self._is_object_store:
            self._fs.create_dir(target.rpartition("/")[0], recursive=True)
            if self._kind(target) != "NotFound":
                self._fs.delete_file(target)
        self._fs.move(origin, target)

    def _at(self, name: str) -> str:
        return join(self._root, name) if name else self._root.rstrip("/")

    def _kind(self, path: str) -> str:
        """Return "NotFound", "File" or "Directory"."""
        kind: str = self._fs.get_file_info(path).type.name
        return kind


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

    def for_workers(self, places: Iterable[str]) -> WorkerLocations:
        return self


def _user() -> str:
    return os.environ.get("HADOOP_USER_NAME") or os.environ.get("USER") or ""


def _unset(name: str) -> None:
    return None


def open_folder(location: str) -> Folder:
    """Open a location with the settings of this process and its environment. Creates nothing. Raises `ConfigError`."""
    return WorkerLocations().open(location)
