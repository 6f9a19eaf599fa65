"""The events that the job reports to the demo as JSON lines: its recovery, its waves, and its counts at the end."""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

__all__ = ["Ended", "Event", "Recovered", "WaveCommitted", "from_line", "to_line"]


@dataclass(frozen=True)
class Event:
    """An event at the time `at`, in seconds of the machine's monotonic clock."""

    at: float = field(default_factory=time.monotonic, kw_only=True)


@dataclass(frozen=True)
class Recovered(Event):
    """The driver has started; see `anchorbolt.checkpoint.coordinator.RecoveryReport`."""

    action: str
    txid: int
    generation: int


@dataclass(frozen=True)
class WaveCommitted(Event):
    """A wave was committed after `rounds` rounds, with `words` words."""

    txid: int
    rounds: int
    words: int


@dataclass(frozen=True)
class Ended(Event):
    """The source is empty; `counts` is the state of all tasks."""

    counts: Mapping[str, int]


_KINDS: dict[str, type[Recovered] | type[WaveCommitted] | type[Ended]] = {
    kind.__name__: kind for kind in (Recovered, WaveCommitted, Ended)
}


def to_line(event: Recovered | WaveCommitted | Ended) -> str:
    """Return an event as one line of text, with its newline."""
    return json.dumps([type(event).__name__, asdict(event)]) + "\n"


def from_line(line: str) -> Recovered | WaveCommitted | Ended:
    """Return the event of a complete line that `to_line` made."""
    kind, fields = json.loads(line)
    return _KINDS[kind](**fields)
