"""The records of a history as lines of text."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from anchorbolt.observe.history.failures import first_failed
from anchorbolt.observe.history.records import End, Record, Start, Wave
from anchorbolt.util.messages import counted, last_line
from anchorbolt.util.values import printable

_WIDTH = 60
_PHASES = {"source": "·", "compute": "█", "prepare": "▓", "decide": "▒", "commit": "░"}


def line_of(record: Record) -> str:
    """Return a record as one line."""
    shown = f"{_time(record)}  "
    if isinstance(record, Start):
        return f"{shown}generation {record.generation} {record.action} at txid {record.txid}"
    if isinstance(record, End):
        failure = _reason(record.failure.strip())
        why = f": {record.error or 'error'}: {printable(failure)}" if failure else ""
        return f"{shown}{record.status.lower()} at txid {record.txid}{why}"
    checkpoint = sum(record.phases_ms.get(name, 0) for name in ("prepare", "decide", "commit"))
    tuples = counted(sum(record.executed.values()), "tuple")
    parts = [f"wave {record.txid}: {record.duration_ms:,.0f} ms, checkpoint {checkpoint:,.0f} ms, {tuples}"]
    if record.keys_staged:
        parts.append(f"{counted(record.keys_staged, 'key')} staged")
    if record.rounds > 1:
        why = f"the first failed: {printable(record.failures[0])}" if record.failures else "to leave out what fails"
        parts.append(f"{record.rounds} rounds, all but the last in {record.failed_ms:,.0f} ms, {why}")
    if record.failed or record.dead_letters:
        counts = ((record.failed, "failed message"), (record.dead_letters, "dead letter"))
        first = first_failed(record)
        failed = " and ".join(counted(number, noun) for number, noun in counts if number)
        parts.append(f"{failed}, the first: {printable(first)}" if first else failed)
    if record.throttled:
        parts.append(f"throttled: {printable(record.throttled)}")
    return shown + ", ".join(parts)


def _reason(text: str) -> str:
    """Return an error's text as one line: for a user's traceback, the exception and then its origin."""
    if not text.startswith("Traceback"):
        return text.partition("\n")[0]
    traceback, _, message = text.partition("\n\n")
    return ", ".join(filter(None, (last_line(traceback), message.partition("\n")[0])))


def plotted(records: Sequence[Record]) -> Iterator[str]:
    """Yield a bar for each wave, with its phases in different shades, and a line for each start and end."""
    longest = max((record.total_ms for record in records if isinstance(record, Wave)), default=0) or 1
    yield "  ".join(f"{shade} {phase}" for phase, shade in _PHASES.items())
    for record in records:
        if not isinstance(record, Wave):
            yield line_of(record)
            continue
        bar, filled = "", 0.0
        for phase, shade in _PHASES.items():
            filled += record.phases_ms.get(phase, 0) / longest * _WIDTH
            bar += shade * (round(filled) - len(bar))
        again = f"  {record.rounds} rounds" if record.rounds > 1 else ""
        yield f"{_time(record)}  {record.txid:>8}  {bar:<{_WIDTH}}  {record.total_ms:>8,.0f} ms{again}"


def _time(record: Record) -> str:
    return datetime.fromtimestamp(record.at).astimezone().isoformat(" ", "seconds")
