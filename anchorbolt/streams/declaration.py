"""Streams: how a component declares what it emits. Knows nothing of groupings or of who listens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from anchorbolt.errors import TopologyError

DEFAULT_STREAM = "default"
CHECKPOINT_STREAM = "$checkpoint"

_NAME = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,127}")


def check_name(kind: str, name: object) -> str:
    """Return `name` if it can name a topology, component or stream.

    A name has 1 to 128 of the characters `A-Z a-z 0-9 _ . -` and no leading dot; names that start with `$` or `__`
    are reserved for the framework.

    Raises:
        TopologyError: It cannot.
    """
    if isinstance(name, str) and name.startswith(("$", "__")):
        raise TopologyError(
            f"{kind} {name!r} is reserved: names that start with '$' or '__' are Anchorbolt's own. "
            f"Choose another {kind}.",
            component=name,
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TopologyError(
            f"{kind} {name!r} is not a valid name. Use 1 to 128 of the characters A-Z a-z 0-9 _ . - "
            "and no leading dot.",
            component=name if isinstance(name, str) else None,
        )
    return name


@dataclass(frozen=True)
class StreamDeclaration:
    """One declared stream of a component.

    Attributes:
        fields: Names of the values of its tuples, in order.
        direct: Whether the emitter chooses the receiving task (`emit_direct`).
    """

    fields: tuple[str, ...]
    direct: bool = False


class OutputFieldsDeclarer:
    """Handed to `declare_output_fields`; collects the streams that a component declares."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._streams: dict[str, StreamDeclaration] = {}

    @property
    def streams(self) -> Mapping[str, StreamDeclaration]:
        """The streams declared so far, by name."""
        return MappingProxyType(self._streams)

    def declare(self, *fields: str, direct: bool = False) -> None:
        """Declare the default stream with these fields.

        Raises:
            TopologyError: A field is not a string, is named twice, or the stream is declared already.
        """
        self._add(DEFAULT_STREAM, fields, direct)

    def declare_stream(self, stream: str, *fields: str, direct: bool = False) -> None:
        """Declare another stream with these fields. Errors as in `declare`."""
        self._add(check_name("stream", stream), fields, direct)

    def _add(self, stream: str, fields: tuple[str, ...], direct: bool) -> None:
        where = f"component {self._component!r}, stream {stream!r}"
        if stream in self._streams:
            raise TopologyError(
                f"{where}: declared twice. Declare each stream once.", component=self._component
            )
        for field in fields:
            if not isinstance(field, str) or not field:
                raise TopologyError(
                    f"{where}: field {field!r} is not a name. Pass each field as a string of its own, "
                    "as in declare('word', 'count').",
                    component=self._component,
                )
        if len(set(fields)) != len(fields):
            twice = next(field for field in fields if fields.count(field) > 1)
            raise TopologyError(
                f"{where}: field {twice!r} is named twice. Give each field its own name.",
                component=self._component,
            )
        self._streams[stream] = StreamDeclaration(tuple(fields), direct)
