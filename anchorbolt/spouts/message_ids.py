"""The ids of messages: when two ids are the same, and their compact form in a decision record."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anchorbolt.errors import SerializationError, UnsupportedValue
from anchorbolt.serialization import pack, unpack
from anchorbolt.util.messages import shortened
from anchorbolt.util.plain import PLAIN_TYPES, plain

_LARGEST_BYTES = 256 << 20  # decompressed
_MOST_IDS = 1 << 24
"""Limits of a reader, so that damaged bytes cannot fill its memory. `parts_of` splits larger sets."""


def id_key(msg_id: Any) -> str | int | bytes:
    """Return the key of a message id in a dict or set: a str or int itself, or the packed bytes of any other id.

    Two ids are the same if their packed bytes are equal. The id itself cannot be the key: in Python `("x", 1)` and
    `("x", True)` are equal.
    """
    kind = type(msg_id)
    if kind is str or kind is int:
        return msg_id  # type: ignore[no-any-return]
    return pack(msg_id) if kind in PLAIN_TYPES else id_key(plain(msg_id))


_STAND_FOR_THEMSELVES = frozenset({str, int})


def id_keys(msg_ids: Sequence[Any]) -> Sequence[str | int | bytes]:
    """Return `id_key` of each message id. Much faster if all ids are str and int."""
    return msg_ids if _STAND_FOR_THEMSELVES.issuperset(map(type, msg_ids)) else [*map(id_key, msg_ids)]


def id_of(key: str | int | bytes) -> Any:
    """Return the message id that has this key."""
    return unpack(key) if type(key) is bytes else key


@dataclass(frozen=True)
class AckedMessages:
    """Messages of one spout that a decision acks. The source may not have received the acks yet."""

    component: str
    packed: bytes

    @classmethod
    def parts_of(cls, component: str, msg_ids: Sequence[Any]) -> Iterator[tuple["AckedMessages", Sequence[Any]]]:
        """Encode message ids, split by the limits of a reader; yield each part with its ids.

        Whole numbers are encoded as ranges, other ids are compressed. Raises `UnsupportedValue` if an id is too large.
        """
        for start in range(0, len(msg_ids), _MOST_IDS):
            yield from cls._halves_of(component, msg_ids[start : start + _MOST_IDS])

    @classmethod
    def _halves_of(cls, component: str, msg_ids: Sequence[Any]) -> Iterator[tuple["AckedMessages", Sequence[Any]]]:
        ranges = _ranges(msg_ids)
        kind, content = (0, msg_ids) if ranges is None else (1, ranges)
        packed, middle = pack(list(content)), len(msg_ids) // 2
        if len(packed) <= _LARGEST_BYTES:
            yield cls(component, bytes([kind]) + zlib.compress(packed, level=1)), msg_ids
        elif middle:
            yield from cls._halves_of(component, msg_ids[:middle])
            yield from cls._halves_of(component, msg_ids[middle:])
        else:
            raise UnsupportedValue(
                f"spout {component!r} has emitted a message id of {len(packed):,} bytes, and the most is "
                f"{_LARGEST_BYTES:,}: {shortened(msg_ids[0])}. Use a shorter id."
            )

    def msg_ids(self) -> list[Any]:
        """Decode the message ids, in any order. Raises `SerializationError` if the bytes are invalid."""
        try:
            kind = self.packed[0]
            inflating = zlib.decompressobj()
            content = unpack(inflating.decompress(self.packed[1:], _LARGEST_BYTES))
            if inflating.unconsumed_tail or kind not in (0, 1) or not isinstance(content, list):
                raise ValueError("they are too long, or of another kind")
            if kind == 0:
                return content
            counts = [count for _, count in content]
            if sum(counts) > _MOST_IDS or min(counts, default=1) < 1:
                raise ValueError("their ranges hold too many ids")
            return [msg_id for first, count in content for msg_id in range(first, first + count)]
        except (IndexError, TypeError, ValueError, zlib.error) as error:
            raise SerializationError(
                f"the message ids of spout {self.component!r} in the decision record cannot be read: {error}"
            ) from error


def _ranges(msg_ids: Sequence[Any]) -> list[list[int]] | None:
    """Return the first number and the length of each range; None if not all ids are numbers of 64 bits."""
    if set(map(type, msg_ids)) != {int}:
        return None
    import numpy as np  # imported here: most drivers have no spouts with stable message ids

    try:
        numbers = np.fromiter(msg_ids, np.int64, len(msg_ids))
    except OverflowError:
        return None
    if not (numbers[1:] > numbers[:-1]).all():
        numbers = np.unique(numbers)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(numbers) != 1)))
    lengths = np.diff(np.append(starts, len(numbers)))
    ranges: list[list[int]] = np.column_stack((numbers[starts], lengths)).tolist()
    return ranges
