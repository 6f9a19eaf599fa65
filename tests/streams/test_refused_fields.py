"""A value that cannot be encoded is named with its field, and with the path to the part that is to blame."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.errors import UnsupportedValue
from anchorbolt.serialization import pack
from anchorbolt.serialization.msgpack_values import refused_value

PLAIN = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=5) | st.binary()
KEYS = st.integers() | st.text(st.characters(codec="ascii"), max_size=5)
BAD: Any = st.sampled_from(["\ud800", object(), map(str, []), 1 << 40_000])


@st.composite
def holding(draw: st.DrawFn) -> tuple[Any, Any]:
    """Return a nested value with one part that cannot be encoded, and that part."""
    value = bad = draw(BAD)
    for _ in range(draw(st.integers(0, 6))):
        others = draw(st.lists(PLAIN, max_size=3))
        place = draw(st.integers(0, len(others)))
        kind = draw(st.sampled_from([list, tuple, dict]))
        if kind is dict:
            keys = draw(st.lists(KEYS, min_size=len(others) + 1, max_size=len(others) + 1, unique=True))
            value = dict(zip(keys, [*others[:place], value, *others[place:]], strict=True))
        else:
            value = kind([*others[:place], value, *others[place:]])
    return value, bad


@given(holding())
def test_the_path_leads_to_the_part_that_cannot_be_encoded(given: tuple[Any, Any]) -> None:
    value, bad = given
    with pytest.raises(UnsupportedValue) as raised:
        pack(value)
    path = re.match(r"at (.*?): ", raised.value.message, re.DOTALL)
    found = eval(f"value{path[1]}", {"value": value}) if path else value  # noqa: S307 - our own message
    assert found is bad


@given(st.lists(PLAIN, min_size=2, max_size=4), holding(), st.data())
def test_the_field_is_named(plain: list[Any], refused: tuple[Any, Any], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(plain) - 1))
    columns = [[value] for value in plain]
    columns[place] = [plain[place], refused[0]]
    fields = [f"field-{number}" for number in range(len(plain))]
    error = refused_value("component 'a'", "default", fields, columns)
    assert f"for the field 'field-{place}'" in error.message


LOOP: list[Any] = []
LOOP.append(LOOP)


@pytest.mark.parametrize("value", [LOOP, [1, {"a": LOOP}]])
def test_a_value_that_holds_itself_is_said_to(value: Any) -> None:
    with pytest.raises(UnsupportedValue, match="holds itself"):
        pack(value)
