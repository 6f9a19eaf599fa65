"""The records of a history: of committed waves, of starts and ends of drivers, of changes by commands. Pure.

A record is stored as a JSON object; its `kind` is `start`, `wave`, `end` or `change`. A file of a history may be
damaged, or written by another program: a record is read only if each known field has its type. Unknown fields are
ignored, and missing fields get their defaults.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, structs, to_builtins

from anchorbolt.config.masking import Masking

MOST_BYTES = 64 << 10
"""Limit of a record, as JSON."""

Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]  # exact in JavaScript, too
Number = Annotated[float, Meta(ge=-(2.0**53), le=2.0**53)]  # neither NaN nor infinite
Time = Annotated[float, Meta(ge=0, lt=250_000_000_000)]  # seconds since 1970; dates end with the year 9999


class Input(Struct, frozen=True):
    """A stream that a bolt reads."""

    component: str
    stream: str
    grouping: str


class GraphComponent(Struct, frozen=True, kw_only=True):
    """A spout, a bolt or the ackers."""

    id: str
    kind: str  # spout, bolt or acker
    type: str  # class of the object, empty for ackers
    level: Whole
    tasks: Whole
    inputs: Sequence[Input] = []
    # Only of a bolt.
    stateful: bool | UnsetType = UNSET
    sink: bool | UnsetType = UNSET
    committer: bool | UnsetType = UNSET
    chained_to: str | UnsetType = UNSET  # the bolt in whose tasks' partitions its tasks run

    @property
    def keeps_state(self) -> bool:
        """Whether the component has keys and values in the store."""
        return self.stateful is True or self.kind == "acker"


class Graph(Struct, frozen=True):
    """A topology, so that a page can draw it later."""

    topology: str
    components: Sequence[GraphComponent]  # in topological order; ackers are last


class Letter(Struct, frozen=True):
    """A dead letter without its values."""

    at: Time
    txid: Whole
    spout: str
    message: str  # its id; of a transactional topology, its batch
    component: str  # where it failed; empty if unknown
    task: Whole
    reason: str
    traceback: str  # empty if no bolt raised
    tries: Whole


class FailedMessage(Struct, frozen=True):
    """A message that failed."""

    spout: str
    message: str  # its id
    component: str  # after a timeout, the last that held a tuple of it; empty if unknown
    task: Whole
    reason: str
    timed_out: bool


class Holder(Struct, frozen=True):
    """A task that held tuples of a spout's messages when they timed out."""

    spout: str
    component: str
    task: Whole
    messages: Whole


class Raised(Struct, frozen=True):
    """An exception of a bolt or a spout."""

    component: str
    task: Whole
    traceback: str


class _Head(Struct, frozen=True, kw_only=True, tag_field="kind"):
    at: Time
    generation: Whole
    txid: Whole


class Start(_Head, frozen=True, kw_only=True, tag="start"):
    """A driver has recovered."""

    action: str = ""
    recovery_ms: Number = 0.0
    graph: Graph | UnsetType | None = None  # None for a topology of hundreds of components

    has_failed = False


class End(_Head, frozen=True, kw_only=True, tag="end", omit_defaults=True):
    """A run has ended; `txid` is the last committed one."""

    status: str = ""
    error: str = ""  # the type of the exception
    failure: str = ""  # its text

    @property
    def has_failed(self) -> bool:
        """Whether the run failed."""
        return self.status == "FAILED"


class Wave(_Head, frozen=True, kw_only=True, tag="wave"):
    """A wave has committed."""

    batch_id: Whole = 0
    total_ms: Number = 0.0
    failed_ms: Number = 0.0  # of the failed rounds
    phases_ms: Mapping[str, Number] = {}
    rounds: Whole = 1
    repeats: Whole | None = None  # rounds run again to leave out failed messages; None in old records
    losses: Whole = 0
    failures: Sequence[str] = []  # why the first rounds failed
    raised: Raised | None = None  # by the first failed round in which a bolt or a spout raised
    executed: Mapping[str, Whole] = {}  # tuples, by component
    emitted: Mapping[str, Whole] = {}
    bytes_shuffled: Whole = 0
    keys_read: Whole = 0
    keys_staged: Whole = 0
    bytes_staged: Whole = 0
    acked: Whole = 0
    failed: Whole = 0
    dead_letters: Whole = 0
    letters: Sequence[Letter] = []  # the first dead letters
    messages: Sequence[FailedMessage] = []  # the first failed messages
    timed_out: Sequence[Holder] = []
    throttled: str = ""
    offsets_behind: Whole | None = None
    files_waiting: Whole | None = None
    # By component: its number of tasks, and the least, the median and the most of each quantity.
    tasks: Mapping[str, Mapping[str, Whole | Sequence[Whole | Number]]] | UnsetType = {}

    @property
    def has_failed(self) -> bool:
        """Whether a round was run again, a message failed, or a tuple became a dead letter."""
        return self.rounds > 1 or self.failed > 0 or self.dead_letters > 0

    @property
    def duration_ms(self) -> float:
        """The duration of the wave, including its failed rounds."""
        return self.total_ms + self.failed_ms


class Change(_Head, frozen=True, kw_only=True, tag="change", omit_defaults=True):
    """A command has changed the state, or a start has rescaled it; `generation` is that of the command."""

    command: str = ""  # such as `put`; `start` for a rescale at a start
    by: str = ""  # user@host
    put: Mapping[str, Whole] = {}  # entries, by component
    deleted: Mapping[str, Whole] = {}
    keys: Sequence[str] = []  # the first ten, of a command that changes single keys
    tasks: Mapping[str, tuple[Whole, Whole]] = {}  # before and after, by component with another number of tasks

    has_failed = False


Record = Start | Wave | End | Change


def plain(value: Any) -> Any:
    """Convert a value that may contain records or answers for `json`."""
    return to_builtins(value, enc_hook=_without_class)


def _without_class(value: object) -> object:
    """Convert an object of a subclass, such as a user's `str` or NumPy's `float64`, to a plain value."""
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise NotImplementedError(f"a {type(value).__name__} is no JSON")


def encoded(record: Record) -> bytes:
    """Return a record as a line of JSON with its newline."""
    # Users' texts may contain lone surrogates, which only the standard library's encoder escapes.
    return json.dumps(plain(record), separators=(",", ":")).encode() + b"\n"


def without_secrets(record: Record, masking: Masking) -> Record:
    """Mask the configuration's secrets in a record's texts, such as a user's exception."""
    names = ("failures", "raised", "letters", "messages", "failure")
    texts = {name: _masked(value, masking) for name in names if (value := getattr(record, name, None))}
    return structs.replace(record, **texts) if texts else record


def _masked(value: Any, masking: Masking) -> Any:
    if isinstance(value, Struct):
        return structs.replace(
            value, **{name: _masked(getattr(value, name), masking) for name in value.__struct_fields__}
        )
    if isinstance(value, (list, tuple)):
        return [_masked(each, masking) for each in value]
    return masking.without_secrets(value)


def decoded(lines: Iterable[bytes]) -> list[Record]:
    """Return the records of these lines; skip damaged lines."""
    records: list[Record] = []
    for line in lines:
        if len(line) > MOST_BYTES:
            continue
        try:
            records.append(convert(json.loads(line), Record))
        except (ValueError, ValidationError, RecursionError):
            continue
    return records
