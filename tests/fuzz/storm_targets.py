"""What is decoded of the bytes that Storm wrote."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from anchorbolt.errors import SerializationError
from anchorbolt.serialization.codecs import MsgpackCodec
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import StormDecoder, detect
from anchorbolt.storm.plain_values import plain_value
from anchorbolt.storm.wrapper import Generation, unwrap
from tests.fuzz import Target
from tests.support.storm_fixtures import dump, forms, holds_object


def _storm(generation: Generation) -> Callable[[bytes], Any]:
    decoder = StormDecoder(generation, enums={"anchorfix.Colour": ["RED"]})

    def decode(data: bytes) -> Any:
        decoded = decoder.decode_key(data)
        assert len(str(decoded)) <= 201
        with suppress(SerializationError):
            MsgpackCodec().encode(plain_value(decoded))
        return json.dumps(decoded.to_json())

    return decode


def _values_of(name: str) -> list[bytes]:
    return [
        value
        for namespace, fields in dump(name).binary().items()
        if not namespace.startswith(("enum", "pojo", "registered"))
        for value in fields.values()
    ]


def _forms_of(kryo: str) -> list[bytes]:
    return [
        form.data
        for form in forms(kryo)
        if not holds_object(form.form) and "KryoForms$" not in str(form.form) and len(form.data) < 300
    ]


STORM_TARGETS = (
    Target("what Storm 1 serialised", _storm(Generation.STORM_1_0), _values_of("storm-1.0.3")),
    Target("what Storm 2.0 serialised", _storm(Generation.STORM_2_0), _forms_of("4.0.2")),
    Target("what Storm 2.6 serialised", _storm(Generation.STORM_2_6), _forms_of("5.6.2")),
    Target(
        "values of Storm in their wrappers",
        lambda data: (unwrap(data), StormDecoder(Generation.STORM_1_2).decode_value(data)),
        _values_of("storm-1.2.4"),
    ),
    Target(
        "which Storm wrote a hash",
        lambda data: detect([(data, data)]),
        [value for name in ("storm-1.0.3", "storm-2.6.4") for value in _values_of(name)],
    ),
    Target(
        "Base64 text of Storm",
        lambda data: (base64_text.decode(data), base64_text.problem(data)),
        [field for fields in dump("storm-1.0.3").hashes.values() for field in fields][:40],
    ),
)
