"""State in SQLite: one file per namespace under a directory of one machine, the embedded default.

Never use it on a network file system: SQLite's locks and shared memory are unreliable there.
"""

import os
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from anchorbolt.errors import ConfigError, StateCorrupted, StateRegressed
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.database_file import SqliteFile
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage

_SUFFIX = ".sqlite"
_MOUNTS = Path("/proc/self/mounts")
_NETWORK_TYPES = frozenset(
    [
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"),
        *("nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.curlftpfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.mfs"),
        *("fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    ]
)


@dataclass(frozen=True)
class SqliteStateProvider(StateProvider):
    """Keeps each namespace in a file `<namespace>.sqlite` of `directory`, with ":" in the name replaced by "@".

    A commit that has returned survives the loss of power (`synchronous=FULL`).

    Attributes:
        directory: Directory of the files; created by the first write. A relative path is resolved against the
            current directory of the process that creates the provider.
        timeout_ms: How long a call waits, in milliseconds, for another process that is writing to the same namespace.
    """

    directory: str
    timeout_ms: int = 5000

    shared_by_machines = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", os.path.abspath(self.directory))

    def open(self, namespace: str) -> SqliteStateStorage:
        """Open a namespace. Raises `ConfigError` for a file, a network file system or an impossible name."""
        rules.check_namespace(namespace)
        if kind := network_file_system(self.directory):
            raise ConfigError(
                f"the state directory {self.directory} is on a network file system ({kind}), on which SQLite's locks "
                "cannot be relied on: choose a directory on a local disk, or the provider redis",
                key="topology.state.provider.config.directory",
            )
        if os.path.isfile(self.directory):
            key = "topology.state.provider.config.directory"
            raise ConfigError(f"the state directory {self.directory} is a file: name a directory", key=key)
        return SqliteStateStorage(self._path(namespace), namespace, self.timeout_ms)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        for path in sorted(Path(self.directory).glob(f"*{_SUFFIX}")):
            namespace = path.name[: -len(_SUFFIX)].replace("@", ":")
            if namespace.startswith(prefix) and self._path(namespace) == path:
                holds_anything = True  # even if the file is damaged
                opened = closing(SqliteFile(path, namespace, self.timeout_ms))
                with opened as file, suppress(StateCorrupted, StateRegressed), file.reading() as connection:
                    holds_anything = connection is not None
                if holds_anything:
                    yield namespace

    def describe(self) -> str:
        return f"SQLite files in {self.directory}"

    def _path(self, namespace: str) -> Path:
        return Path(self.directory, namespace.replace(":", "@") + _SUFFIX)


def network_file_system(directory: str) -> str | None:
    """Return the type of the network file system that `directory` is on, None if it is local or unknown.

    Reads the table of mounts, and opens nothing in `directory`, which need not exist. Outside Linux returns None.
    """
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    found = mounted_type(str(Path(directory).resolve()), mounts)
    return found if found in _NETWORK_TYPES else None


def mounted_type(path: str, mounts: str) -> str:
    """Return the type of the file system of an absolute `path`; `mounts` is a table like `/proc/self/mounts`."""
    longest, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # A later mount on the same point hides the earlier one.
        if inside and len(point) >= longest:
            longest, found = len(point), fields[2]
    return found
