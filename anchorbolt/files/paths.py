"""Locations as text: paths and URIs. Pure, except that a relative local path starts at the current directory."""

import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from anchorbolt.errors import ConfigError

S3_SCHEMES = ("s3a", "s3")

# As in Hadoop's `Path`, `%`, `?` and `#` have no meaning. A scheme of one letter is a Windows drive.
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//(?P<authority>[^/]*))?(?P<path>.*)", re.DOTALL)
# A container or a user, and hosts with their ports.
_HOST = r"(\[[0-9A-Fa-f:.]+\]|[^@:,\[\]\s]*)(:[0-9]*)?"
_AUTHORITY = re.compile(rf"([^@:\[\]\s]+@)?{_HOST}(,{_HOST})*")


class Uri(NamedTuple):
    """The parts of a remote location. The path has Hadoop's form; if qualified, it is absolute."""

    scheme: str
    authority: str
    path: str

    @property
    def root(self) -> str:
        """The file system, such as `hdfs://host:8020`: files can be renamed only within one file system."""
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True)
class BaseLocation:
    """The location of paths without a scheme: `fs.defaultFS` of Spark's Hadoop configuration.

    Attributes:
        root: The file system, such as `hdfs://host:8020`; empty for the local disk.
        directory: The start of relative paths.
    """

    root: str = ""
    directory: str = ""

    @classmethod
    def local(cls) -> "BaseLocation":
        return cls("", os.getcwd())


def local_path(location: str) -> Path | None:
    """Return the local path of a location, or None if it is remote."""
    found = _URI.fullmatch(location)
    if found is None:
        return Path(location)
    return Path(found["path"]) if found["scheme"].lower() == "file" else None


def join(location: str, name: str) -> str:
    return f"{location.rstrip('/')}/{name}"


def uri_of(location: str) -> Uri | None:
    """Return the parts of a remote location, or None if it is a path or on the local disk."""
    found = _URI.fullmatch(location)
    if found is None or found["scheme"].lower() == "file":
        return None
    path = found["path"]
    return Uri(found["scheme"].lower(), found["authority"] or "", _normalised(path) if path.startswith("/") else path)


def qualified(location: str, base: BaseLocation) -> str:
    """Return a location with its file system, as Spark does; an absolute path if the base is the local disk.

    A URI without a path names the root of its file system, as `s3a://bucket/` does; Spark itself refuses it.

    Raises `ConfigError` for a location that Hadoop or WebHDFS cannot use, and for a URI with a password.
    """
    _check(location)
    uri, path = uri_of(location), local_path(location)
    default = uri_of(base.root)
    if uri is not None:
        takes_authority = not uri.authority and default is not None and default.scheme == uri.scheme
        return f"{base.root if takes_authority else uri.root}{uri.path or '/'}"
    assert path is not None, "each location is remote or has a path"
    if default is None:
        return _normalised(os.path.abspath(os.path.join(base.directory, path)))
    if _URI.fullmatch(location):
        return f"file://{_normalised(str(path))}"
    directory = uri_of(base.directory)
    return base.root + _normalised(join("" if directory is None or path.is_absolute() else directory.path, str(path)))


def _normalised(path: str) -> str:
    """Return an absolute path in Hadoop's form: with single slashes, without `.`, `..` and a slash at the end."""
    return "/" + posixpath.normpath(path).lstrip("/")


def _check(location: str) -> None:
    found = _URI.fullmatch(location)
    if found is None:
        return
    scheme, authority, path = found["scheme"].lower(), found["authority"] or "", found["path"]
    if not _AUTHORITY.fullmatch(authority):
        # The authority may contain a password, and a `/` in the password moves a part of it to the path: show neither.
        shown = f"a location of {scheme}:" if set(":@") & set(authority) else repr(location)
        raise ConfigError(
            f"{shown} does not name its file system as host, host:port, or bucket. If it holds a user's name and "
            "password, remove them, and set the credentials in Spark's Hadoop configuration."
        )
    if scheme == "file" and authority:
        raise ConfigError(f"{location!r} names the machine {authority!r}. Write file:///path, with three slashes.")
    if not path.startswith("/") and (path or not authority):
        raise ConfigError(
            f"{location!r} has the scheme {scheme}:, and its path does not begin with a slash. Write "
            f"{scheme}://host/path for a URI, or put ./ before a relative path that has a colon in it."
        )
    if scheme == "hdfs" and "?" in path:
        raise ConfigError(f"{location!r} has a question mark, which WebHDFS cannot write. Choose another name.")


def on_one_file_system(first: str, second: str) -> bool:
    """Return whether a file can be moved from one qualified location to the other. Local disks count as one."""
    one, other = uri_of(first), uri_of(second)
    return (one and one.root) == (other and other.root)
