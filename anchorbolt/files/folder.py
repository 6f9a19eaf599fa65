"""The operations on files at a location, on any file system."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol


class FileSystemGone(OSError):
    """The store of a location reports that the bucket or container does not exist: all its files are gone."""


class Folder(Protocol):
    """Files below one location, named by relative paths with `/`.

    On a local disk a file is durable, with its name, once `replace` or `move_in` has returned, or the file from
    `create` is closed. Elsewhere its durability depends on the file system. All methods raise `OSError` if the file
    system cannot be reached or refuses.
    """

    location: str

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""

    def read_end(self, name: str, size: int) -> bytes | None:
        """Return the last `size` bytes of a file, or None if the file does not exist."""

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file: a reader gets the old or the new content, even after a crash."""

    def create(self, name: str) -> BinaryIO:
        """Open a new file for writing; it is durable once closed. No other process may use the name."""

    def create_passing(self, name: str) -> BinaryIO:
        """Open a new file for writing that need not survive a loss of power."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading. Raises `FileNotFoundError`."""

    def exists(self, name: str) -> bool: ...

    def move_in(self, source: str, name: str) -> None:
        """Move the file at location `source` to `name`. Repeating a finished move changes nothing.

        Raises `FileNotFoundError` if neither the source nor the target exists, and `ConfigError` if the source is on
        another file system.
        """

    def remove_tree(self, name: str) -> None:
        """Remove a file, or a folder with its content, if it exists."""

    def names(self, name: str) -> Iterator[str]:
        """Yield the names of the files and folders directly in a folder; nothing if it does not exist."""


class Locations(Protocol):
    """Opens the locations of a run, with the run's credentials."""

    def qualified(self, location: str) -> str:
        """Return a location with its file system; an absolute path if that is the local disk."""

    def open(self, location: str) -> Folder:
        """Return the folder at a location. Creates nothing. Raises `ConfigError` if it cannot be a folder."""

    def for_workers(self, places: Iterable[str]) -> "Locations":
        """Return picklable locations that open these places on another machine, without a JVM.

        They contain the necessary settings and credentials. Raises `ConfigError` if a place cannot be opened in this
        way.
        """
