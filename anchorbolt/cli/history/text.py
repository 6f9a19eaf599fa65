"""The records of a history as lines of text."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from anchorbolt.observe.history.failures import first_failed
from anchorbolt.observe.history.records import Record
from anchorbolt.util.messages import counted, last_line
from anchorbolt.util.values import printable

_WIDTH = 60
_PHASES = {"source": "·", "compute": "█", "prepare": "▓", "decide": "▒", "commit": "░"}


def line_of(record: Record) -> str:
    """Return a record as one line."""
    shown = f"{_time(record)}  "
    if record["kind"] == "start":
        return f"{shown}generation {record['generation']} {record.get('action', '')} at txid {record['txid']}"
    if record["kind"] == "end":
        failure = _reason(str(record.get("failure", "")).strip())
        why = f": {record.get('error', 'error')}: {printable(failure)}" if failure else ""
        return f"{shown}{str(record.get('status', 'ended')).lower()} at txid {record['txid']}{why}"
    phases = record.get("phases_ms", {})
    checkpoint = sum(phases.get(name, 0) for name in ("prepare", "decide", "commit"))
    tuples = counted(sum(record.get("executed", {}).values()), "tuple")
    parts = [f"wave {record['txid']}: {duration_ms(record):,.0f} ms, checkpoint {checkpoint:,.0f} ms, {tuples}"]
    if record.get("keys_staged"):
        parts.append(f"{counted(record['keys_staged'], 'key')} staged")
    if record.get("rounds", 1) > 1:
        reasons = record.get("failures")
        why = f"the first failed: {printable(str(reasons[0]))}" if reasons else "to leave out what fails"
        parts.append(f"{record['rounds']} rounds, all but the last in {record.get('failed_ms', 0):,.0f} ms, {why}")
    failed = [
        counted(record[name], noun)
        for name, noun in (("failed", "failed message"), ("dead_letters", "dead letter"))
        if record.get(name)
    ]
    if failed:
        first = first_failed(record)
        parts.append(" and ".join(failed) + (f", the first: {printable(first)}" if first else ""))
    if record.get("throttled"):
        parts.append(f"throttled: {printable(str(record['throttled']))}")
    return shown + ", ".join(parts)


def duration_ms(record: Record) -> float:
    """Return the duration of a wave, including its failed rounds."""
    return float(record.get("total_ms", 0) + record.get("failed_ms", 0))


def _reason(text: str) -> str:
    """Return an error's text as one line: for a user's traceback, the exception and then its origin."""
    if not text.startswith("Traceback"):
        return text.partition("\n")[0]
    traceback, _, message = text.partition("\n\n")
    return ", ".join(filter(None, (last_line(traceback), message.partition("\n")[0])))


def plotted(records: Sequence[Record]) -> Iterator[str]:
    """Yield a bar for each wave, with its phases in different shades, and a line for each start and end."""
    longest = max((record.get("total_ms", 0) for record in records), default=0) or 1
    yield "  ".join(f"{shade} {phase}" for phase, shade in _PHASES.items())
    for record in records:
        if record["kind"] != "wave":
            yield line_of(record)
            continue
        bar, filled = "", 0.0
        for phase, shade in _PHASES.items():
            filled += record.get("phases_ms", {}).get(phase, 0) / longest * _WIDTH
            bar += shade * (round(filled) - len(bar))
        again = f"  {record['rounds']} rounds" if record.get("rounds", 1) > 1 else ""
        yield f"{_time(record)}  {record['txid']:>8}  {bar:<{_WIDTH}}  {record.get('total_ms', 0):>8,.0f} ms{again}"


def _time(record: Record) -> str:
    return datetime.fromtimestamp(record["at"]).astimezone().isoformat(" ", "seconds")
