"""What a record that was read must look like, so that whatever shows it can rely on it. Pure.

A file of a history may be damaged, or be written by somebody else. Fields that are not named here are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_Shape = Callable[[Any], bool]

_MOST = 2.0**53  # of a number: JavaScript, too, knows such a whole number exactly
_LATEST = 250_000_000_000  # the last year that dates have, in seconds since 1970


def is_whole(record: Any) -> bool:
    """Return whether a value is a record in which each known field has its type."""
    return _RECORD(record)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _MOST  # neither NaN nor infinite


def _is_int(value: Any) -> bool:
    return type(value) is int and abs(value) <= _MOST


def _is_time(value: Any) -> bool:
    return _is_number(value) and 0 <= value < _LATEST


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(shape: _Shape) -> _Shape:
    return lambda value: value is None or shape(value)


def _list(items: _Shape) -> _Shape:
    return lambda value: isinstance(value, list) and all(map(items, value))


def _map(items: _Shape) -> _Shape:
    return lambda value: isinstance(value, dict) and all(map(items, value.values()))


def _object(required: Mapping[str, _Shape], optional: Mapping[str, _Shape] | None = None) -> _Shape:
    fields = {**required, **(optional or {})}

    def has_shape(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() >= required.keys()
            and all(shape(value[name]) for name, shape in fields.items() if name in value)
        )

    return has_shape


_TASK: Mapping[str, _Shape] = {"component": _is_text, "task": _is_int}
_COMPONENT = _object(
    {"id": _is_text, "kind": _is_text, "type": _is_text, "level": _is_int, "tasks": _is_int}
    | {"inputs": _list(_object(dict.fromkeys(("component", "stream", "grouping"), _is_text)))},
    dict.fromkeys(("stateful", "sink", "committer"), _is_flag),
)
_LETTER = _object(
    {**_TASK, **dict.fromkeys(("spout", "message", "reason", "traceback"), _is_text)}
    | {"at": _is_time, "txid": _is_int, "tries": _is_int}
)
_MESSAGE = _object({**_TASK, **dict.fromkeys(("spout", "message", "reason"), _is_text), "timed_out": _is_flag})
_SPREAD = _list(_is_number)
_OF_ROUNDS = ("batch_id", "rounds", "repeats", "losses", "bytes_shuffled", "keys_read", "keys_staged", "bytes_staged")
_OF_MESSAGES = ("acked", "failed", "dead_letters")

_RECORD = _object(
    {"kind": lambda value: value in ("start", "wave", "end"), "at": _is_time, "generation": _is_int, "txid": _is_int},
    {
        **dict.fromkeys(("action", "status", "error", "failure", "throttled"), _is_text),
        **dict.fromkeys(("recovery_ms", "total_ms", "failed_ms"), _is_number),
        **dict.fromkeys((*_OF_ROUNDS, *_OF_MESSAGES), _is_int),
        **dict.fromkeys(("offsets_behind", "files_waiting"), _or_none(_is_int)),
        **dict.fromkeys(("phases_ms", "executed", "emitted"), _map(_is_number)),
        "failures": _list(_is_text),
        "raised": _or_none(_object({**_TASK, "traceback": _is_text})),
        "letters": _list(_LETTER),
        "messages": _list(_MESSAGE),
        "timed_out": _list(_object({**_TASK, "spout": _is_text, "messages": _is_int})),
        "tasks": _map(_map(lambda value: _is_int(value) or _SPREAD(value))),
        "graph": _or_none(_object({"topology": _is_text, "components": _list(_COMPONENT)})),
    },
)
