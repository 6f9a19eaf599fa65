"""The output of the commands on state, as lines and as values for JSON."""

import json
import sys
from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from anchorbolt.checkpoint.decision_log import is_record_namespace
from anchorbolt.cli.command import print_line
from anchorbolt.cli.work_progress import shown_progress
from anchorbolt.migration_tools.comparing import Difference
from anchorbolt.migration_tools.entries import Entry, NamespaceSummary
from anchorbolt.migration_tools.giving_ttl import TtlReport
from anchorbolt.migration_tools.renaming import RenameReport
from anchorbolt.migration_tools.repairing import RepairReport
from anchorbolt.migration_tools.rescaling import RescaleReport
from anchorbolt.migration_tools.topology_inspection import NamespaceReport, TopologyReport
from anchorbolt.serialization.codecs import FIRST_VERSION
from anchorbolt.state_backends.contract import NOTHING_COMMITTED
from anchorbolt.util.messages import counted
from anchorbolt.util.times import shown_time
from anchorbolt.util.values import as_json, as_text

_SHOWN_CHARACTERS = 500  # of a key or a value in a line of a scan


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        sys.stderr.write(f"note: {note}\n")


def print_scan(
    namespace: str,
    notes: Iterable[str],
    pages: Iterable[list[Entry]],
    count: int | None = None,
    *,
    limit: int | None,
    in_json: bool,
) -> int:
    """Print notes and at most `limit` entries, a line each; return their number. `count` is that of all, if known."""
    print_notes(notes)
    shown = 0
    total = min((each for each in (limit, count) if each is not None), default=None)
    with shown_progress(wanted=not sys.stdout.isatty()) as progress:
        progress.begin(f"scanning {namespace}", total)
        for entry in islice(chain.from_iterable(pages), limit):
            print_line(json.dumps(entry_content(entry)) if in_json else entry_line(entry, _SHOWN_CHARACTERS))
            progress.advance(1)
            shown += 1
    return shown


def entry_line(entry: Entry, limit: int = sys.maxsize) -> str:
    """Return `key: value` as Python literals, each with at most `limit` characters, and remarks after a `#`."""
    key = as_text(entry.key.shown, limit)
    if entry.value is None:
        return f"{key}: absent"
    remarks = ["prepared" if entry.prepared else "", entry.key.problem, entry.value.problem]
    if entry.value.version > FIRST_VERSION:
        remarks.append(f"schema version {entry.value.version}")
    if entry.expires_at is not None:
        remarks.append(f"expires {shown_time(entry.expires_at)}")
    said = "; ".join(dict.fromkeys(filter(None, remarks)))
    return f"{key}: {as_text(entry.value.shown, limit)}{f'  # {said}' if said else ''}"


def entry_content(entry: Entry) -> dict[str, Any]:
    content = {"key": as_json(entry.key.shown), "key_problem": entry.key.problem}
    if entry.prepared is None:
        content["stored_key"] = entry.key.data.hex()
    elif entry.prepared:
        content["prepared"] = True
    if entry.value is None:
        content["absent"] = True
    else:
        content |= {"value": as_json(entry.value.shown), "value_problem": entry.value.problem}
        if entry.value.version > FIRST_VERSION:
            content["schema_version"] = entry.value.version
        if entry.expires_at is not None:
            content["expires_at"] = entry.expires_at
    return {name: each for name, each in content.items() if each or not name.endswith("_problem")}


def summary_line(summary: NamespaceSummary, width: int) -> str:
    """Return one line about a namespace, its name padded to `width`."""
    if summary.problem:
        return f"{summary.namespace:<{width}}  {summary.problem}"
    is_record = is_record_namespace(summary.namespace)
    parts = ["decision record" if is_record else _position(summary.committed), summary.codec or "no format yet"]
    if summary.keys is not None:
        parts.append(counted(summary.keys, "key"))
    if summary.attempts:
        parts.append(f"{summary.attempts} staged")
    return f"{summary.namespace:<{width}}  {', '.join(parts)}"


def report_lines(report: TopologyReport, place: str) -> list[str]:
    snapshot, record = report.snapshot, report.snapshot.stored
    lines = [f"topology {snapshot.topology} in {place}"]
    if report.wrong_location:
        lines = [f"check the checkpoint location: {report.wrong_location}", "", *lines]
    if record is None:
        why = "cannot be read" if snapshot.record_namespace in snapshot.unreadable else "none"
        lines.append(f"decision record: {why} ({snapshot.record_namespace})")
    else:
        source = f"; batch {record.batch_id} of query {record.query_id}" if record.query_id else ""
        lines.append(f"decision record: txid {record.txid}, {record.state.phase.value}{source}")
    if (copied := snapshot.copied) is not None:
        lines.append(f"its copy at {snapshot.location}: txid {copied.txid}, {copied.state.phase.value}")
    fence = "unknown" if snapshot.record_namespace in snapshot.unreadable else tuple(snapshot.record_head.fence)
    lines += [f"fence: {fence}", ""]
    for each in report.namespaces:
        lines += _namespace_lines(each)
    titled = {
        "blocks the checkpoint": report.blocking,
        "refuses the next start": report.refusals,
        "next start": report.next_start,
        "note": report.notes,
    }
    for title, sentences in titled.items():
        lines += ["", *(f"{title}: {sentence}" for sentence in sentences)] if sentences else []
    return lines


def report_content(report: TopologyReport, place: str) -> dict[str, Any]:
    snapshot = report.snapshot
    return {
        "topology": snapshot.topology,
        "store": place,
        "record_namespace": snapshot.record_namespace,
        "fence": snapshot.record_head.fence,
        "holds_fence": snapshot.holds_fence,
        "record": _record_content(snapshot.stored),
        "copy": _record_content(snapshot.copied),
        "checkpoint_location": snapshot.location or None,
        "query_id_at_location": snapshot.query_id,
        "wrong_location": report.wrong_location or None,
        "has_moved": snapshot.has_moved,
        "namespaces": [_namespace_content(each) for each in report.namespaces],
        **{name: getattr(report, name) for name in ("blocking", "refusals", "action", "next_start", "notes")},
    }


def _record_content(record: Any) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "txid": record.txid,
        "phase": record.state.phase.value,
        "query_id": record.query_id,
        "batch_id": record.batch_id,
        "winners": {name: winner.attempt for name, winner in record.winners.items()},
        "parallelism": dict(record.parallelism),
    }


def _namespace_lines(each: NamespaceReport) -> list[str]:
    if each.problem:
        return [f"{each.namespace}: cannot be read: {each.problem}"]
    head = each.head
    parts = [f"{_position(head.committed)}{f' from attempt {head.winner}' if head.winner else ''}"]
    parts.append(f"fence {tuple(head.fence)}")
    if each.keys is not None:
        parts.append(f"{each.keys:,} keys, {each.size:,} bytes")
    parts.append(head.codec or "no format yet")
    lines = [f"{each.namespace}: {'; '.join(parts)}"]
    for attempt, staged in head.attempts.items():
        how = f"sealed with {counted(staged.seal.slices, 'slice')}" if staged.seal else "not sealed"
        over = f"for txid {staged.txid} over {staged.base}, fence {tuple(staged.fence)}"
        lines.append(f"    staged: attempt {attempt} {over}, {how}")
    return lines


def _namespace_content(each: NamespaceReport) -> dict[str, Any]:
    attempts = {
        attempt: {**{name: getattr(staged, name) for name in ("txid", "base", "fence")}, "sealed": bool(staged.seal)}
        for attempt, staged in each.head.attempts.items()
    }
    return {
        "namespace": each.namespace,
        "problem": each.problem,
        **{name: getattr(each.head, name) for name in ("fence", "committed", "winner", "codec") if not each.problem},
        "keys": each.keys,
        "bytes": each.size,
        "attempts": attempts,
        **{name: getattr(each, name) for name in ("next_start", "refusal", "is_known")},
    }


def _position(txid: int) -> str:
    return "nothing committed" if txid == NOTHING_COMMITTED else f"committed txid {txid}"


def rename_lines(report: RenameReport) -> list[str]:
    """Describe a rename of state, or a dry run of it."""
    lines = [f"{old} -> {new}" for old, new in report.namespaces]
    if report.is_dry_run:
        return [*lines, f"dry run: nothing was written. The rename would be txid {report.txid} in {report.store}"]
    entries = counted(report.entries or 0, "key")
    return [*lines, f"renamed {entries} in {report.store}, as txid {report.txid}"]


def ttl_lines(report: TtlReport) -> list[str]:
    """Describe a TTL that was given to the entries of a bolt, or a dry run of it."""
    until = "stay" if report.expires_at is None else f"expire {shown_time(report.expires_at)}"
    if report.is_dry_run:
        names = list(report.namespaces)
        return [*names, f"dry run: nothing was written. The entries would {until}, as of txid {report.txid}"]
    entries = counted(report.entries or 0, "key")
    return [f"{entries} in {', '.join(report.namespaces)} {until}, as of txid {report.txid} in {report.store}"]


def rescale_lines(report: RescaleReport) -> list[str]:
    """Describe a change of numbers of tasks, or a dry run of it."""
    lines = [
        f"{each.component}: {counted(each.before, 'task')} -> {counted(each.after, 'task')}; "
        f"{each.moving:,} of {counted(each.entries, 'key')} go to another task, grouped by "
        f"{each.key_function}"
        for each in report.bolts
    ]
    if report.txid is None:
        return ["all bolts have these numbers of tasks already: there is nothing to do"]
    if report.is_dry_run:
        return [*lines, f"dry run: nothing was written. The change would be txid {report.txid} in {report.store}"]
    numbers = ", ".join(f"{each.component}={each.after}" for each in report.bolts)
    return [*lines, f"done, as txid {report.txid} in {report.store}. Start the topology with {numbers}"]


def repair_lines(report: RepairReport, after: str) -> list[str]:
    """Describe a repair, or a dry run of it; `after` is what became of each key that was there."""
    lines = [f"{each.namespace}  {entry_line(each.before)}{after}" for each in report.entries]
    if report.txid is None:
        return [*lines, "no key is there: there is nothing to do"]
    until = "" if report.expires_at is None else f", and expires {shown_time(report.expires_at)}"
    if report.is_dry_run:
        return [*lines, f"dry run: nothing was written. The change would be txid {report.txid} in {report.store}"]
    return [*lines, f"done, as txid {report.txid} in {report.store}{until}"]


def difference_lines(found: Difference) -> list[str]:
    """Describe a difference: `-` before an entry of the first side, `+` before one of the other."""
    sides = (("-", found.here), ("+", found.there))
    return [f"{sign} {found.component}  {entry_line(each, _SHOWN_CHARACTERS)}" for sign, each in sides if each]


def difference_content(found: Difference) -> dict[str, Any]:
    sides = {"here": found.here, "there": found.there}
    shown = {side: None if each is None else entry_content(each) for side, each in sides.items()}
    return {"component": found.component, **shown}


def repair_content(report: RepairReport) -> dict[str, Any]:
    entries = [{"namespace": each.namespace, "before": entry_content(each.before)} for each in report.entries]
    return {**vars(report), "entries": entries}
