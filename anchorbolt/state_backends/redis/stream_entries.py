"""The common parts of the readers of Redis streams: entries, their ids, and the errors of a spout."""

from anchorbolt.errors import ConfigError, SourceUnavailable
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.errors import Advice

Entry = tuple[str, dict[bytes, bytes]]
"""An entry's id, and its fields. An entry that was deleted while it was pending has no fields."""

FIRST = "0-0"
"""Position before the first entry: no entry has this id or a lower one."""

_LARGEST_PART = 2**64 - 1
_WRONG_TYPE = "WRONGTYPE"


def id_parts(id: str) -> tuple[int, int]:
    """Return the two numbers of an id, by which Redis orders entries."""
    first, _, second = id.partition("-")
    return int(first), int(second or 0)


def next_id(id: str) -> str:
    """Return the lowest id after this one. Redis before 6.2 has no exclusive ranges."""
    first, second = id_parts(id)
    return f"{first}-{second + 1}" if second < _LARGEST_PART else f"{first + 1}-0"


def advice_for(commands: str) -> Advice:
    """Return the parts of messages for a spout that runs these commands."""
    return Advice(
        use_server="pass host and port instead of nodes",
        use_cluster="pass its nodes instead of host and port",
        commands=commands,
        key=None,
        unavailable=SourceUnavailable,
    )


def no_stream(address: RedisAddress, key: str, refusal: str) -> ConfigError | None:
    """Return the error if Redis refused the key because it is not a stream; None for any other refusal."""
    if _WRONG_TYPE not in refusal:
        return None
    return ConfigError(
        f"{address} has something else than a stream under the key {key!r} ({refusal}). Name a stream, or a key that "
        "is free."
    )
