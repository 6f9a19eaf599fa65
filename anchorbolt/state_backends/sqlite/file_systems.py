"""Tells whether a directory is on a network file system, where SQLite's locks and shared memory are unreliable.

It reads the table of mounts, and never creates or opens anything in the directory.
"""

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_NETWORK_TYPES = frozenset(
    [
        *("afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"),
        *("nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs"),
        *("fuse.ceph", "fuse.curlftpfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.mfs"),
        *("fuse.rclone", "fuse.s3fs", "fuse.sshfs"),
    ]
)


def network_file_system(directory: str) -> str | None:
    """Return the type of the network file system that `directory` is on, None if it is local or unknown.

    `directory` need not exist. Outside Linux the result is always None.
    """
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    found = mounted_type(str(Path(directory).resolve()), mounts)
    return found if found in _NETWORK_TYPES else None


def mounted_type(path: str, mounts: str) -> str:
    """Return the type of the file system that an absolute `path` is on, by a table as in `/proc/self/mounts`."""
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
