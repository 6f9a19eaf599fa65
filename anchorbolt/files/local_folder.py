"""A folder on a local disk or a mounted file system."""

import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from anchorbolt.errors import ConfigError
from anchorbolt.files.paths import local_path


class LocalFolder:
    """See `Folder`."""

    def __init__(self, location: str, path: Path) -> None:
        """Open `location`; `path` is its path. Raises `ConfigError` if it is a file."""
        if path.is_file():
            raise ConfigError(f"{location!r} is a file. Name a directory.")
        self.location = location
        self._path = path

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def read_end(self, name: str, size: int) -> bytes | None:
        try:
            with (self._path / name).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - size))
                return file.read()
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
            raise different_file_systems(source, self.location)
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


def different_file_systems(source: str, location: str) -> ConfigError:
    return ConfigError(
        f"{source} cannot be moved to {location}, which is on another file system. Put the checkpoint location and the "
        "sink's directory on one file system."
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
