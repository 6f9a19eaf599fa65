"""The namespaces that a command works on, and what earlier commands left beside them."""

import os
from collections.abc import Iterable, Sequence

from anchorbolt.errors import ConfigError
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import (
    OURS,
    backup_of,
    checkpoint_spouts_among,
    hashes_of,
    suffix_of,
)
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes, shown


def ours(hashes: RedisHashes) -> list[bytes]:
    """Return the keys of checkpoint spouts, their backups, and the temporary hashes of migrations."""
    return [key for key in hashes.keys(OURS) if suffix_of(key) or checkpoint_spouts_among([key.removesuffix(b"_old")])]


def wanted(namespaces: Sequence[bytes], spouts: Sequence[bytes]) -> list[bytes]:
    """Return the namespaces of a command, each once. Raises `ConfigError` if there are none or a name is not valid."""
    for namespace in namespaces:
        whole = namespace.removesuffix(b"$prepare").removesuffix(b"$txid")
        if whole != namespace:
            raise ConfigError(
                f"{os.fsdecode(namespace)!r} is a single hash of a namespace: name the namespace, "
                f"{os.fsdecode(whole)!r}",
                key="--namespace",
            )
        if not namespace:
            raise ConfigError("a namespace has a name: give it to --namespace", key="--namespace")
    if not namespaces and not spouts:
        raise ConfigError("name the namespaces: -n <component>-<task>, as often as needed", key="--namespace")
    return list(dict.fromkeys([*namespaces, *spouts]))


def left_out(found: Sequence[bytes], wanted: Sequence[bytes], advice: str) -> tuple[str, ...]:
    """Return a warning that names the checkpoint spouts' namespaces that are not in `wanted`, if there are any."""
    others = [shown(spout) for spout in checkpoint_spouts_among(found) if spout not in wanted]
    if not others:
        return ()
    are = "is a namespace" if len(others) == 1 else "are namespaces"
    return (f"{', '.join(others)} {are} of a checkpoint spout, and {advice}",)


def remove_leftovers(hashes: RedisHashes, namespaces: Sequence[bytes], found: Iterable[bytes]) -> None:
    """Remove the temporary hashes of these namespaces that killed runs left behind."""
    keys = [key for namespace in namespaces for key in hashes_of(namespace)]
    for key in found:
        suffix = suffix_of(key)
        if suffix and any(
            key in (hashes.sibling(each, suffix), hashes.sibling(backup_of(each), suffix)) for each in keys
        ):
            hashes.remove([key])
