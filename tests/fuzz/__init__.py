"""Bytes from a store or from another task may be anything: they give a value, or an error of our tree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    name: str
    decode: Callable[[bytes], Any]
    examples: Sequence[bytes]
