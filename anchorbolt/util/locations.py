"""Small files at a location that may be local or remote: read, replaced atomically, moved, removed.

A location is a path or a URI that `pyarrow.fs` knows (`file:`, `hdfs:`, `s3:`, `gs:`). On a local disk a file is
durable, with its name, once `replace` or `move` has returned; elsewhere it is as durable as the store makes it.
"""

import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from anchorbolt.errors import ConfigError


class Folder(Protocol):
    """Files below one location, named by relative paths with `/`."""

    location: str

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically: a reader sees the old content or the new one."""

    def create(self, name: str) -> BinaryIO:
        """Open a new file for writing; it is durable once closed. No other process may use the name."""

    def create_passing(self, name: str) -> BinaryIO:
        """Open a new file for writing that need not survive a loss of power."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading. Raises `FileNotFoundError`."""

    def exists(self, name: str) -> bool: ...

    def move_in(self, source: str, name: str) -> None:
        """Move the file at location `source` to `name`. Repeating a finished move changes nothing.

        Raises `FileNotFoundError` if neither the source nor the target exists.
        """

    def remove_tree(self, name: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""

    def names(self, name: str) -> Iterator[str]:
        """Yield the names of the files and folders directly in a folder; nothing if it does not exist."""


def local_path(location: str) -> Path | None:
    """Return the local path of a location, or None if it is remote."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    # A scheme of one letter is a Windows drive.
    return Path(location) if len(parts.scheme) <= 1 else None


def join(location: str, name: str) -> str:
    return f"{location.rstrip('/')}/{name}"


def open_folder(location: str) -> Folder:
    """Return the folder at a location. Creates nothing. Raises `ConfigError` if it cannot be a folder."""
    path = local_path(location)
    if path is not None and path.is_file():
        raise ConfigError(f"{location!r} is a file. Name a directory.")
    return _LocalFolder(path) if path is not None else _RemoteFolder(location)


class _LocalFolder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.location = str(path)

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        target = self._path / name
        _make_directory(target.parent)
        _write_atomically(target, io.BytesIO(data))
        _sync_directory(target.parent)

    def create(self, name: str) -> BinaryIO:
        target = self._path / name
        _make_directory(target.parent)
        return io.BufferedWriter(_DurableFile(target, "wb"), 1 << 16)

    def create_passing(self, name: str) -> BinaryIO:
        target = self._path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("wb")

    def open(self, name: str) -> BinaryIO:
        return (self._path / name).open("rb")

    def exists(self, name: str) -> bool:
        return (self._path / name).exists()

    def move_in(self, source: str, name: str) -> None:
        origin, target = local_path(source), self._path / name
        if origin is None:
            raise _different_file_systems(source, self.location)
        _make_directory(target.parent)
        try:
            origin.replace(target)
        except FileNotFoundError:
            if not target.exists():
                raise
        except OSError:  # the source is on another file system
            with origin.open("rb") as reader:
                _write_atomically(target, reader)
            origin.unlink(missing_ok=True)
        _sync_directory(target.parent)

    def remove_tree(self, name: str) -> None:
        path = self._path / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def names(self, name: str) -> Iterator[str]:
        with suppress(FileNotFoundError):
            yield from sorted(os.listdir(self._path / name))


def _write_atomically(target: Path, content: BinaryIO) -> None:
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _different_file_systems(source: str, location: str) -> ConfigError:
    return ConfigError(
        f"{source} cannot be moved to {location}: one is remote and the other local. Put the checkpoint "
        "location and the sink's directory on one file system."
    )


def _make_directory(path: Path) -> None:
    """Make a directory and its missing parents durably."""
    if path.is_dir():
        return
    _make_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


class _DurableFile(io.FileIO):
    """A file whose content and name are durable once it is closed."""

    def close(self) -> None:
        try:
            if not self.closed:
                os.fsync(self.fileno())
                _sync_directory(Path(os.fsdecode(self.name)).parent)
        finally:
            super().close()


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _RemoteFolder:
    def __init__(self, location: str) -> None:
        from pyarrow import fs

        self.location = location
        self._pyarrow = fs
        try:
            self._fs, self._root = fs.FileSystem.from_uri(location)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"location {location!r} cannot be opened: {error}. Use a local path, or a URI of a "
                "file system that pyarrow.fs supports."
            ) from error

    def read(self, name: str) -> bytes | None:
        if not self.exists(name):
            return None
        with self._fs.open_input_stream(self._at(name)) as stream:
            data: bytes = stream.read()
        return data

    def replace(self, name: str, data: bytes) -> None:
        # An object store shows a file only when it is closed.
        with self.create(name) as stream:
            stream.write(data)

    def create(self, name: str) -> BinaryIO:
        stream: BinaryIO = self._fs.open_output_stream(self._with_parent(name))
        return stream

    def create_passing(self, name: str) -> BinaryIO:
        return self.create(name)

    def open(self, name: str) -> BinaryIO:
        stream: BinaryIO = self._fs.open_input_stream(self._at(name))
        return stream

    def exists(self, name: str) -> bool:
        return self._kind(self._at(name)) != "NotFound"

    def move_in(self, source: str, name: str) -> None:
        if local_path(source) is not None:
            raise _different_file_systems(source, self.location)
        origin: str = self._pyarrow.FileSystem.from_uri(source)[1]
        if self._kind(origin) != "NotFound":
            self._fs.move(origin, self._with_parent(name))
        elif not self.exists(name):
            raise FileNotFoundError(source)

    def remove_tree(self, name: str) -> None:
        kind = self._kind(self._at(name))
        if kind == "Directory":
            self._fs.delete_dir(self._at(name))
        elif kind != "NotFound":
            self._fs.delete_file(self._at(name))

    def names(self, name: str) -> Iterator[str]:
        selector = self._pyarrow.FileSelector(self._at(name), allow_not_found=True)
        for info in self._fs.get_file_info(selector):
            yield info.base_name

    def _at(self, name: str) -> str:
        return join(self._root, name)

    def _with_parent(self, name: str) -> str:
        """Return the path of a file after its folder was made."""
        target = self._at(name)
        self._fs.create_dir(target.rpartition("/")[0], recursive=True)
        return target

    def _kind(self, path: str) -> str:
        """Return "NotFound", "File" or "Directory"."""
        kind: str = self._fs.get_file_info(path).type.name
        return kind
