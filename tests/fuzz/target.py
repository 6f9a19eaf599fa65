"""What the fuzzer feeds: a decoder with valid examples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    name: str
    decode: Callable[[bytes], Any]
    examples: Sequence[bytes]
