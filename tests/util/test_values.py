"""Values as JSON: everything that our codecs decode has a form, and text never holds a control character."""

import datetime as dt
import decimal
import json
import uuid
from typing import Any

import pytest

from anchorbolt.util.values import as_json, as_text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (float("nan"), {"$float": "nan"}),
        (b"\x00\xff", {"$bytes": "AP8="}),
        ((1, [2]), {"$tuple": [1, [2]]}),
        ({1, 2}, {"$set": [1, 2]}),
        (frozenset({"a"}), {"$frozenset": ["a"]}),
        ({"a": (1,)}, {"a": {"$tuple": [1]}}),
        ({1: "a"}, {"$map": [[1, "a"]]}),
        ({"$tuple": []}, {"$map": [["$tuple", []]]}),
        (dt.datetime(2026, 1, 2, 3), {"$datetime": "2026-01-02T03:00:00"}),
        (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
        (dt.timedelta(seconds=1.5), {"$timedelta": 1.5}),
        (decimal.Decimal("1.20"), {"$decimal": "1.20"}),
        (uuid.UUID(int=1), {"$uuid": str(uuid.UUID(int=1))}),
        (1 + 2j, {"$complex": "(1+2j)"}),
    ],
)
def test_a_value_has_a_form_in_json(value: Any, shown: Any) -> None:
    assert as_json(value) == shown
    assert json.loads(json.dumps(as_json(value))) == shown


class _Hostile:
    def __init__(self, text: str | None) -> None:
        self.text = text

    def __repr__(self) -> str:
        if self.text is None:
            raise ValueError
        return self.text


def test_text_holds_no_control_characters_whatever_a_repr_gives() -> None:
    assert "\x1b" not in as_text("\x1b[31m")
    assert "\x1b" not in as_text(_Hostile("\x1b[31m"))
    assert as_text(_Hostile(None)) == "(_Hostile, whose repr raises)"
    assert as_text("x" * 100, 10) == "'xxxxxxxxx…"


def test_what_is_nested_too_deep_is_shown_as_text() -> None:
    value: Any = 1
    for _ in range(500):
        value = [value]
    assert "$repr" in json.dumps(as_json(value))
