"""The Redis keys of a namespace of Storm's, and the migration's own keys. Pure."""

import re
import secrets
from collections.abc import Iterable

OURS = "*$*"  # a glob that matches temporary keys of a migration and namespaces of checkpoint spouts
UNDONE_SUFFIX = b"_undone"  # of a changed hash that `undo` keeps
DROPPED = b"$dropped"  # follows the suffix of a temporary hash: a replaced hash that must be deleted

_SUFFIX = re.compile(rb"\$anchorbolt\$migrating\$[0-9a-f]{16}(?:\$dropped)?\Z")
_CHECKPOINT_SPOUT = re.compile(rb"\{?\$checkpointspout-[0-9]+\}?\Z")


def hashes_of(namespace: bytes) -> tuple[bytes, bytes]:
    """Return the names of the two hashes with entries: the prepared ones and the committed ones."""
    return namespace + b"$prepare", namespace


def txid_of(namespace: bytes) -> bytes:
    """Return the name of the hash that holds the transaction ids, as plain text."""
    return namespace + b"$txid"


def backup_of(key: bytes) -> bytes:
    """Return the name of a hash's backup, the same as in Storm's own tool."""
    return key + b"_old"


def new_suffix() -> bytes:
    """Return a suffix for temporary hashes that no other run uses."""
    return b"$anchorbolt$migrating$" + secrets.token_hex(8).encode()


def suffix_of(key: bytes) -> bytes | None:
    """Return the suffix of a temporary hash of any run; None for any other key."""
    found = _SUFFIX.search(key)
    return found[0] if found else None


def checkpoint_spouts_among(keys: Iterable[bytes]) -> list[bytes]:
    """Return the keys that are namespaces of checkpoint spouts, sorted."""
    return sorted({key for key in keys if _CHECKPOINT_SPOUT.match(key)})
