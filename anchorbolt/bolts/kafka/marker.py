"""The marker: a record in Kafka of the last sent wave, written in the same Kafka transaction as its messages.

It is the committed offset of a consumer group without consumers: the next txid, and in the offset's metadata a digest
of the last sent wave. Pure.

Kafka forgets the offsets of a group that has no members after `offsets.retention.minutes` (7 days), counted from the
last commit. So a run writes a marker before its first wave, and again while there is nothing to send. A driver that
starts with a decided wave and finds no marker must not send the wave: the messages may be there. A driver that has read
the marker and has not committed messages since may write it again. `Patience` bounds all waits for Kafka.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.errors import SinkUnavailable, StateRegressed
from anchorbolt.util.retry import RetryPolicy

LostMarker = Literal["stop", "send", "skip"]


class Marker(NamedTuple):
    """The marker of a sink."""

    next_txid: int  # all earlier waves are sent
    digest: str = ""  # of the wave before `next_txid`, if that wave had rows


def digest_of(files: Sequence[SinkFile]) -> str:
    """Return a digest of a decided wave. Two waves never share one: each file's name holds its attempt's random id."""
    names = sorted(f"{file.path.rpartition('/')[2]} {file.rows}" for file in files)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:32]


def is_sent(marker: Marker, txid: int, digest: str) -> bool:
    """Return whether a decided wave was sent. Raises `StateRegressed` if the marker is of another history."""
    if marker.next_txid == txid + 1 and marker.digest == digest:
        return True
    check_history(marker, txid - 1)
    return False


def check_history(marker: Marker, txid: int) -> None:
    """Raise `StateRegressed` if waves after `txid`, the last decided wave, were sent."""
    if marker.next_txid > txid + 1:
        expected, found = f"a marker up to txid {txid}", f"one of txid {marker.next_txid - 1}"
        raise StateRegressed(
            f"Kafka holds messages of this sink up to txid {marker.next_txid - 1}, but the state is at txid {txid}, or "
            "has decided other rows: the store went back in time, the topology started over, or another one uses the "
            "same name. Nothing was sent.",
            expected=expected,
            found=found,
        )


class Patience:
    """The patience of one wave, or of one start. Its time runs from the first failure after the last progress.

    Within a connection, each message that Kafka takes is progress. A new connection sends the wave from its first
    message. So over several connections only more messages than on any of them before are progress: a wave that Kafka
    aborts again and again is given up.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._most = 0  # messages that one connection has delivered
        self._of_stalls = policy.backoff()
        self._of_connections = policy.backoff()

    def advanced(self, delivered: int) -> None:
        """Note progress: the connection has now delivered `delivered` messages, more than at the last call."""
        self._of_stalls = self._policy.backoff()
        if delivered > self._most:
            self._most = delivered
            self._of_connections = self._policy.backoff()

    def may_stall(self, error: SinkUnavailable) -> bool:
        """Sleep and return True, to wait for the same connection; return False after the deadline."""
        return self._of_stalls.sleep_or_give_up(error)

    def may_connect_again(self, error: SinkUnavailable) -> bool:
        """Sleep and return True, to make a new connection; return False after the deadline."""
        return self._of_connections.pause_or_give_up(error) is not None and self.may_stall(error)
