"""The rules of `StateStorage` as pure functions on a namespace's metadata: the effect and the refusals of each step.

A backend that reads its metadata under a lock calls these functions before it writes. A backend that lets the store
decide (by a script, by check-and-put) calls them after a refusal, to raise the right error. No I/O.

Public: authors of providers use these functions as our own backends do, see docs/custom_provider.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from anchorbolt.errors import CodecMismatch, ConfigError, Fenced, StaleAttempt
from anchorbolt.state_backends.contract import (
    NO_FENCE,
    NOTHING_COMMITTED,
    Fence,
    KeyRange,
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedAttempt,
    StagedSlice,
    regressed,
    shown_position,
)

__all__ = [
    "AttemptRecord",
    "Metadata",
    "check_attempt",
    "check_commit",
    "check_fence",
    "check_namespace",
    "check_reading",
    "check_rollback",
    "check_write",
    "divided",
    "head_of",
    "is_namespace",
    "next_record",
    "sealed_record",
    "task_namespace",
]

_SEGMENT = r"\$?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}"
_NAMESPACE = re.compile(rf"{_SEGMENT}(:{_SEGMENT})*")
_ATTEMPT = re.compile(r"[0-9a-f]{32}")
_DIGITS = 8  # bytes of a key after the common ones, as one number
_LONGEST_NAMESPACE = 240  # bytes of a file's name, minus room for SQLite's suffixes


class AttemptRecord(NamedTuple):
    """A store's record of one staged attempt."""

    txid: int
    base: int  # the committed txid that its updates are based on
    fence: Fence  # of the call that started it
    slices: int
    checksum: int  # of all slices
    checksum_before: int  # without the latest slice; to recognise a repeated slice
    sealed: bool


@dataclass(frozen=True)
class Metadata:
    """A store's own record of a namespace, besides its attempts. The defaults are those of a new namespace."""

    fence: Fence = NO_FENCE
    committed: int = NOTHING_COMMITTED
    winner: str = ""
    codec: str = ""
    promoted: str = ""  # the attempt of a half-applied commit; always empty in a store that applies commits at once


def check_namespace(namespace: str) -> None:
    """Refuse a name that some backend could not store, or that collides with a reserved name.

    Raises:
        ConfigError: It does not consist of names of `[A-Za-z0-9_.-]` (at most 128 each, no leading dot, one leading
            `$` for Anchorbolt's own) joined by ":", or is longer than 240 characters.
    """
    if not is_namespace(namespace):
        raise ConfigError(
            f"{namespace!r} cannot be a namespace: use letters, digits, '_', '.' and '-' (128 at most, no leading dot) "
            f"for the topology's name, the component's id and the prefix, and {_LONGEST_NAMESPACE} characters together"
        )


def is_namespace(name: str) -> bool:
    """Return whether `name` has the form of a namespace."""
    return len(name) <= _LONGEST_NAMESPACE and _NAMESPACE.fullmatch(name) is not None


def task_namespace(prefix: str, component: str, index: int) -> str:
    """Return the name of the namespace of a component's task; `prefix` may be empty."""
    return f"{prefix}:{component}-{index}" if prefix else f"{component}-{index}"


def component_of(namespace: str) -> str:
    """Return the component in a name from `task_namespace`."""
    return namespace.rpartition(":")[2].rpartition("-")[0]


def prefix_of(namespace: str) -> str:
    """Return the prefix of a name from `task_namespace`."""
    return namespace.rpartition(":")[0]


def check_attempt(attempt: str) -> None:
    """Raise `ValueError` if `attempt` is not an attempt id: 32 lower-case hexadecimal digits."""
    if not _ATTEMPT.fullmatch(attempt):
        raise ValueError(f"{attempt!r} is not an attempt id: it must be 32 lower-case hexadecimal digits")


def head_of(metadata: Metadata, records: Mapping[str, AttemptRecord]) -> NamespaceHead:
    """Return the public view of a namespace."""
    attempts = {
        attempt: StagedAttempt(
            record.txid, record.base, record.fence, Seal(record.slices, record.checksum) if record.sealed else None
        )
        for attempt, record in records.items()
    }
    return NamespaceHead(metadata.fence, metadata.committed, metadata.winner, metadata.codec, attempts)


def check_fence(namespace: str, metadata: Metadata | NamespaceHead, fence: Fence) -> None:
    """Raise `Fenced` if `fence` is lower than the namespace's."""
    if fence < metadata.fence:
        raise Fenced(
            f"{namespace}: a call with fence {tuple(fence)} is refused, since {tuple(metadata.fence)} has written "
            "here: a newer driver or a newer round has taken over, stop the older one",
            namespace=namespace,
        )


def check_reading(
    namespace: str, metadata: Metadata, record: AttemptRecord | None, attempt: str | None, at: ReadPosition | None
) -> None:
    """Raise the errors of `StateStorage.get_many`; `record` belongs to `attempt`."""
    if at is None:
        return
    found = ReadPosition(metadata.committed, metadata.winner, Seal(record.slices, record.checksum) if record else None)
    # More slices are allowed: a bolt that iterates may update entries, and so stage slices during its own scan.
    has_more = found.staged is not None and at.staged is not None and found.staged.slices > at.staged.slices
    is_staged = at.staged is None or at.staged == found.staged or has_more
    if found[:2] != at[:2] or not is_staged:
        raise _stale(namespace, attempt or "(none)", f"it read at {_shown(found)}, and expected {_shown(at)}")


def check_write(namespace: str, metadata: Metadata | NamespaceHead, fence: Fence, codec: str) -> None:
    """Raise the errors of `StateStorage.write`."""
    check_fence(namespace, metadata, fence)
    if metadata.codec and codec != metadata.codec:
        raise CodecMismatch(
            f"state {namespace!r} was written as {metadata.codec!r}, but {codec!r} is configured: set "
            "keySerializerClass and valueSerializerClass back to what wrote it, or give the topology another name or "
            "prefix to start with empty state",
            namespace=namespace,
        )


def next_record(
    namespace: str, metadata: Metadata, record: AttemptRecord | None, staged: StagedSlice
) -> AttemptRecord | None:
    """Return the record of the attempt with one more slice, or None if the slice is a repeated one.

    If `record` is None, the caller starts the attempt and drops all attempts with a lower fence than the slice.
    Raises the errors of `StateStorage.stage`, and `ValueError` if `staged.attempt` is not an attempt id.
    """
    attempt, number = staged.attempt, staged.number
    check_attempt(attempt)
    check_write(namespace, metadata, staged.fence, staged.codec)
    _check_not_promoted(namespace, metadata, attempt)
    _check_base(namespace, metadata, attempt, staged.base)
    if record is None:
        if number != 0:
            raise _stale(namespace, attempt, f"its slice {number} came, and no slice of it is staged")
        return AttemptRecord(staged.txid, staged.base, staged.fence, 1, staged.checksum_after(0), 0, False)
    if (record.txid, record.base) != (staged.txid, staged.base):
        known = f"it is staged for txid {record.txid} over {record.base}"
        raise _stale(namespace, attempt, f"{known}, and txid {staged.txid} over {staged.base} came")
    if record.sealed:
        raise _stale(namespace, attempt, f"it is sealed, and its slice {number} came")
    if number == record.slices:
        checksum = staged.checksum_after(record.checksum)
        return record._replace(slices=number + 1, checksum=checksum, checksum_before=record.checksum)
    if number != record.slices - 1:
        raise _stale(namespace, attempt, f"slice {record.slices} is next, and slice {number} came")
    if staged.checksum_after(record.checksum_before) != record.checksum:
        raise _stale(namespace, attempt, f"its slice {number} came again with other updates")
    return None


def sealed_record(
    namespace: str, metadata: Metadata, record: AttemptRecord | None, fence: Fence, attempt: str, seal: Seal
) -> AttemptRecord:
    """Return the record of the attempt, sealed. Raises the errors of `StateStorage.seal`."""
    check_fence(namespace, metadata, fence)
    if record is None:
        raise _stale(namespace, attempt, "it is to be sealed, and is not staged")
    if (record.slices, record.checksum) != seal:
        known = f"{record.slices} slices with checksum {record.checksum} are staged"
        raise _stale(namespace, attempt, f"{known}, and its seal says {seal.slices} with {seal.checksum}")
    return record._replace(sealed=True)


def check_commit(
    namespace: str, metadata: Metadata, record: AttemptRecord | None, fence: Fence, txid: int, attempt: str
) -> bool:
    """Return whether to apply the attempt; False if it was applied. Raises the errors of `StateStorage.commit`."""
    check_fence(namespace, metadata, fence)
    if metadata.committed == txid and not metadata.promoted:
        if metadata.winner == attempt:
            return False
        raise _stale(namespace, attempt, f"txid {txid} is committed already, from attempt {metadata.winner}")
    if metadata.promoted != attempt:
        _check_not_promoted(namespace, metadata, attempt)
    if record is None:
        expected = f"{shown_position(txid, attempt)}, staged or committed"
        raise regressed(namespace, expected, shown_position(metadata.committed, metadata.winner))
    if record.txid != txid:
        raise _stale(namespace, attempt, f"it is staged for txid {record.txid}, and was to be committed as {txid}")
    if not record.sealed:
        raise _stale(namespace, attempt, "it is to be committed, and is not sealed")
    _check_base(namespace, metadata, attempt, record.base)
    return True


def check_rollback(namespace: str, metadata: Metadata, fence: Fence) -> None:
    """Raise the errors of `StateStorage.rollback`."""
    check_fence(namespace, metadata, fence)
    _check_not_promoted(namespace, metadata, "")


def _check_base(namespace: str, metadata: Metadata, attempt: str, base: int) -> None:
    if base != metadata.committed:
        raise _stale(namespace, attempt, f"it is based on txid {base}, and txid {metadata.committed} is committed")


def _check_not_promoted(namespace: str, metadata: Metadata, attempt: str) -> None:
    if metadata.promoted:
        reason = f"the commit of attempt {metadata.promoted} is half applied here: finish it first"
        raise _stale(namespace, attempt or metadata.promoted, reason)


def _shown(position: ReadPosition) -> str:
    staged = f"{position.staged.slices} slices of its own" if position.staged else "nothing of its own"
    return f"{shown_position(position.committed, position.winner)} and {staged}"


def _stale(namespace: str, attempt: str, reason: str) -> StaleAttempt:
    return StaleAttempt(
        f"{namespace}: attempt {attempt} does not fit: {reason}. The wave has to be run again from what is committed",
        namespace=namespace,
    )


def divided(lowest: bytes, highest: bytes, parts: int) -> list[KeyRange]:
    """Return at most `parts` ranges that together have all keys.

    They are equally wide between the lowest and the highest key that exist, as numbers. So they have as many keys only
    if the keys are spread evenly.
    """
    length = min(len(lowest), len(highest))
    common = lowest[: next((place for place in range(length) if lowest[place] != highest[place]), length)]
    low, high = (int.from_bytes(key[len(common) :][:_DIGITS].ljust(_DIGITS, b"\0"), "big") for key in (lowest, highest))
    numbers = [low + (high - low) * part // parts for part in range(1, parts)]
    ends = sorted({common + number.to_bytes(_DIGITS, "big").rstrip(b"\0") for number in numbers if number > low})
    return [KeyRange(first, end) for first, end in zip([b"", *ends], [*ends, None], strict=True)]
