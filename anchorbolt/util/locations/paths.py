"""Locations as text: paths and URIs. Pure, except that a relative local path starts at the current directory."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

# A scheme of one letter is a Windows drive.
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)


class Uri(NamedTuple):
    """The parts of a remote location. As in Hadoop, `%`, `?` and `#` have no meaning in its path."""

    scheme: str
    authority: str
    path: str

    @property
    def root(self) -> str:
        """The file system, such as `hdfs://host:8020`: files are renamed within one only."""
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True)
class BaseLocation:
    """Where paths without a scheme are: `fs.defaultFS` of Spark's Hadoop configuration.

    Attributes:
        root: The file system, such as `hdfs://host:8020`; empty for the local disk.
        directory: Where a relative path starts.
    """

    root: str = ""
    directory: str = ""

    @classmethod
    def local(cls) -> "BaseLocation":
        return cls("", os.getcwd())


def local_path(location: str) -> Path | None:
    """Return the local path of a location, or None if it is remote."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(location) if len(parts.scheme) <= 1 else None


def join(location: str, name: str) -> str:
    return f"{location.rstrip('/')}/{name}"


def uri_of(location: str) -> Uri | None:
    """Return the parts of a remote location, or None if it is a path or on the local disk."""
    found = _URI.fullmatch(location)
    if found is None or found["scheme"].lower() == "file":
        return None
    return Uri(found["scheme"].lower(), found["authority"] or "", found["path"])


def qualified(location: str, base: BaseLocation) -> str:
    """Return a location with its file system, as Spark does; an absolute path if the base is the local disk."""
    uri, path = uri_of(location), local_path(location)
    default = uri_of(base.root)
    if uri is not None:
        takes_authority = not uri.authority and default is not None and default.scheme == uri.scheme
        return f"{base.root}{uri.path}" if takes_authority else location
    assert path is not None, "what has no scheme is a path"
    if default is None:
        return os.path.abspath(os.path.join(base.directory, path))
    if location.startswith("file:"):
        return location
    text = os.path.normpath(location)  # Hadoop knows no `..`
    directory = uri_of(base.directory)
    return base.root + (text if text.startswith("/") or directory is None else join(directory.path, text))


def on_one_file_system(first: str, second: str) -> bool:
    """Return whether a file can be moved from one qualified location to the other. Local disks count as one."""
    one, other = uri_of(first), uri_of(second)
    return (one and one.root) == (other and other.root)
