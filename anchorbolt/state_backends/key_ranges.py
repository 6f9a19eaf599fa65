"""Ranges of keys, by which a namespace is scanned in parallel if its store keeps the keys in order."""

from typing import NamedTuple

_DIGITS = 8  # bytes after the common ones, as one number


class KeyRange(NamedTuple):
    """The keys from `first` to before `end`."""

    first: bytes = b""
    end: bytes | None = None  # None: to the last one


ALL_KEYS = KeyRange()


def divided(lowest: bytes, highest: bytes, parts: int) -> list[KeyRange]:
    """Return at most `parts` ranges that together have all keys.

    They are equally wide between the lowest and the highest key that exist, as numbers. So they have as many keys only
    if the keys are spread evenly.
    """
    length = min(len(lowest), len(highest))
    common = lowest[: next((place for place in range(length) if lowest[place] != highest[place]), length)]
    low, high = (int.from_bytes(key[len(common) :][:_DIGITS].ljust(_DIGITS, b"\0"), "big") for key in (lowest, highest))
    numbers = [low + (high - low) * part // parts for part in range(1, parts)]
    ends = sorted({common + number.to_bytes(_DIGITS, "big").rstrip(b"\0") for number in numbers if number > low})
    return [KeyRange(first, end) for first, end in zip([b"", *ends], [*ends, None], strict=True)]
