"""A folder that the driver reads and writes through Hadoop's `FileSystem`, like Spark itself."""

import io
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from anchorbolt.files.hadoop.hadoop_errors import hadoop_errors
from anchorbolt.files.hadoop.jvm import Hadoop
from anchorbolt.files.local_folder import different_file_systems
from anchorbolt.files.paths import S3_SCHEMES, join, on_one_file_system

_ABORTABLE = "fs.capability.outputstream.abortable"
_CHUNK_BYTES = 1 << 20


class HadoopFolder:
    """See `Folder`. May be used on several threads."""

    def __init__(self, hadoop: Hadoop, location: str) -> None:
        """Open a qualified `location`. Raises `OSError` if Hadoop has no such file system."""
        self.location = location
        self._hadoop = hadoop
        with hadoop_errors():
            self._fs = hadoop.file_system(location)
            # An object store shows a file only once it is closed, and then completely; it renames by copying.
            self._is_object_store = self._fs.getUri().getScheme() in S3_SCHEMES
        self._made: set[str] = set()

    def read(self, name: str) -> bytes | None:
        try:
            with self.open(name) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def read_end(self, name: str, size: int) -> bytes | None:
        path = self._at(name)
        try:
            with hadoop_errors():
                length = self._fs.getFileStatus(path).getLen()
                stream = self._fs.open(path)
                try:
                    stream.seek(max(0, length - size))
                    return bytes(stream.readAllBytes())
                finally:
                    stream.close()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        if self._is_object_store:
            self._write(self._at(name), data)
            return
        folder, slash, last = name.rpartition("/")
        aside = self._at(f"{folder}{slash}.{last}.{uuid.uuid4().hex}.tmp")
        try:
            self._write(aside, data)
            self._put(aside, name)
        except OSError:
            with suppress(OSError), hadoop_errors():
                self._fs.delete(aside, False)
            raise

    def create(self, name: str) -> BinaryIO:
        with hadoop_errors():
            return io.BufferedWriter(_Writer(self._fs.create(self._at(name), True)), _CHUNK_BYTES)

    def create_passing(self, name: str) -> BinaryIO:
        return self.create(name)

    def open(self, name: str) -> BinaryIO:
        with hadoop_errors():
            return io.BufferedReader(_Reader(self._fs.open(self._at(name))), _CHUNK_BYTES)

    def exists(self, name: str) -> bool:
        with hadoop_errors():
            return bool(self._fs.exists(self._at(name)))

    def move_in(self, source: str, name: str) -> None:
        if not on_one_file_system(source, self.location):
            raise different_file_systems(source, self.location)
        origin, target = self._hadoop.path(source), self._at(name)
        if self._is_object_store:
            self._move_object(origin, target)
            return
        with hadoop_errors():
            self._make_folder_of(name)
        try:
            with hadoop_errors():
                self._hadoop.rename_over(origin, target)
        except FileNotFoundError:
            if not self.exists(name):
                raise

    def remove_tree(self, name: str) -> None:
        with hadoop_errors():
            self._fs.delete(self._at(name), True)

    def names(self, name: str) -> Iterator[str]:
        try:
            with hadoop_errors():
                paths = self._hadoop.texts(self._hadoop.listed(self._fs.listStatus(self._at(name))))
        except FileNotFoundError:
            return
        yield from sorted(path.rpartition("/")[2] for path in paths)

    def _at(self, name: str) -> Any:
        return self._hadoop.path(join(self.location, name) if name else self.location)

    def _write(self, path: Any, data: bytes) -> None:
        with hadoop_errors():
            stream = self._fs.create(path, True)
            try:
                stream.write(data)
                if stream.hasCapability("hsync"):
                    stream.hsync()
            except BaseException:
                self._give_up(stream)
                raise
            stream.close()

    def _put(self, aside: Any, name: str) -> None:
        """Rename a temporary file to its final name, replacing an existing file."""
        with hadoop_errors():
            self._hadoop.rename_over(aside, self._at(name))

    def _give_up(self, stream: Any) -> None:
        """End a stream after a failed write. Closing it would make an object store show the written part.

        A stream that cannot abort stays open: the JVM frees it.
        """
        try:
            if stream.hasCapability(_ABORTABLE):
                stream.abort()
            elif not self._is_object_store:
                stream.close()
        except Exception:  # the first failure explains more
            return

    def _make_folder_of(self, name: str) -> None:
        folder = name.rpartition("/")[0]
        if folder not in self._made:
            self._fs.mkdirs(self._at(folder))
            self._made.add(folder)

    def _move_object(self, origin: Any, target: Any) -> None:
        """Move an object. A crash during the move leaves both copies; the next call then removes the original."""
        try:
            with hadoop_errors():
                if self._fs.rename(origin, target):
                    return
        except (FileNotFoundError, FileExistsError):
            pass
        with hadoop_errors():
            is_there, is_moved = self._fs.exists(origin), self._fs.exists(target)
            if is_there and is_moved:
                if self._fs.getFileStatus(origin).getLen() == self._fs.getFileStatus(target).getLen():
                    self._fs.delete(origin, False)
                    return
                self._fs.delete(target, False)
                is_moved = self._fs.rename(origin, target)
        if not is_moved:
            kind = OSError if is_there else FileNotFoundError
            raise kind(f"{origin.toString()} cannot be renamed to {target.toString()}")


class _Reader(io.RawIOBase):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with hadoop_errors():
            data = bytes(self._stream.readNBytes(min(len(buffer), _CHUNK_BYTES)))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        # The inherited method reads 8 kB at a time, and each call through py4j takes 40 ms.
        parts: list[bytes] = []
        while not parts or parts[-1]:
            with hadoop_errors():
                parts.append(bytes(self._stream.readNBytes(_CHUNK_BYTES)))
        return b"".join(parts)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with hadoop_errors():
                self._stream.close()


class _Writer(io.RawIOBase):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with hadoop_errors():
            self._stream.write(bytes(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            with hadoop_errors():
                if self._stream.hasCapability("hsync"):
                    self._stream.hsync()
                self._stream.close()
