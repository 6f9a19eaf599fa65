"""Estimates of the bytes of rows are near enough to those of their encoding, and fail for no value."""

from typing import Any

import pytest

from anchorbolt.serialization import pack
from anchorbolt.util.sizes import estimated_bytes

ROWS: dict[str, list[Any]] = {
    "texts": [(f"{number}" * 100, b"x" * 50) for number in range(1000)],
    "of a direct stream": [(7, ("x" * 200,)) for _ in range(1000)],
    "lists and dicts": [({"a": ["x" * 100, {"b": (b"y" * 100,)}]}, [1.5] * 100) for _ in range(10)],
    "one": [("x" * 1000,)],
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_the_estimate_is_near_the_encoded_size(rows: list[Any]) -> None:
    assert estimated_bytes(rows) == pytest.approx(len(pack(rows)), rel=0.35)


def test_other_values_count_a_little_and_none_fails() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert 0 < estimated_bytes([(endless, object(), None, 1 << 70)]) < 100
    assert estimated_bytes([]) == estimated_bytes([()] * 100) == 0
