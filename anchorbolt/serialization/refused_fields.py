"""Names the field and the value of emitted tuples that cannot be encoded."""

from collections.abc import Sequence
from typing import Any

from anchorbolt.errors import UnsupportedValue
from anchorbolt.serialization.msgpack_values import pack
from anchorbolt.util.messages import shortened


def refused_value(
    emitter: str, stream: str, fields: Sequence[str], columns: Sequence[Sequence[Any]]
) -> UnsupportedValue:
    """Return the error for the first value in these columns that cannot be encoded. There must be such a value.

    `emitter` names the emitter, such as "component 'a'".
    """
    where = f"{emitter} emitted to stream {stream!r}"
    for field, column in zip(fields, columns, strict=True):
        for value in column:
            try:
                pack(value)
                pack([[[value]]])  # it is sent at this depth
            except UnsupportedValue as error:
                return UnsupportedValue(
                    f"{where} for the field {field!r} the value {shortened(value)}, which cannot be sent: "
                    f"{error.message}"
                )
    return UnsupportedValue(f"{where} values that cannot be sent together: {shortened(columns, 200)}")
