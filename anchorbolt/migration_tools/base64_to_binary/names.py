"""Which Redis keys belong to a namespace of Storm's, and how a migration calls its own. Pure."""

from __future__ import annotations

import os
import re
import secrets

from anchorbolt.errors import ConfigError

OURS = "*$*"
"""A glob that both a temporary key of a migration and a checkpoint spout's namespace match."""

UNDONE_SUFFIX = b"_undone"
"""Behind the name of a hash that `undo` put aside although it had changed."""

DROPPED = b"$dropped"
"""Behind the suffix of a temporary hash: that which another one took the place of."""

_SUFFIX = re.compile(rb"\$anchorbolt\$migrating\$[0-9a-f]{16}(?:\$dropped)?\Z")
_CHECKPOINT_SPOUT = re.compile(rb"\{?\$checkpointspout-[0-9]+\}?\Z")


def hashes_of(namespace: bytes) -> tuple[bytes, bytes]:
    """Return the names of the two hashes with entries: what is prepared, and what is committed."""
    return namespace + b"$prepare", namespace


def txid_of(namespace: bytes) -> bytes:
    """Return the name of the hash that holds the transaction ids, as plain text."""
    return namespace + b"$txid"


def backup_of(key: bytes) -> bytes:
    """Return the name that a hash has after its migration, as Storm's own tool calls it."""
    return key + b"_old"


def backed_up(key: bytes) -> bytes | None:
    """Return the name of the hash that a key is the backup of, by its name; None where it is none."""
    hash_name = key.removesuffix(b"_old")
    return None if hash_name in (key, b"") else hash_name


def new_suffix() -> bytes:
    """Return what stands behind the name of a temporary hash; no other run uses it."""
    return b"$anchorbolt$migrating$" + secrets.token_hex(8).encode()


def suffix_of(key: bytes) -> bytes | None:
    """Return the suffix of a temporary hash of any run; None for any other key."""
    found = _SUFFIX.search(key)
    return found[0] if found else None


def checkpoint_spouts_among(keys: list[bytes]) -> list[bytes]:
    """Return the keys that are namespaces of checkpoint spouts, in order."""
    return sorted({key for key in keys if _CHECKPOINT_SPOUT.match(key)})


def refuse_parts(namespace: bytes) -> None:
    """Raise `ConfigError` for an empty name, and for the name of a part of a namespace."""
    for ending in (b"$prepare", b"$txid"):
        if namespace.endswith(ending):
            raise ConfigError(
                f"{os.fsdecode(namespace)!r} is a part of a namespace: name "
                f"{os.fsdecode(namespace.removesuffix(ending))!r}, and all that belongs to it is taken",
                key="--namespace",
            )
    if not namespace:
        raise ConfigError("a namespace has a name: give it to --namespace", key="--namespace")
