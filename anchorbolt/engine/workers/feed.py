"""A task of a stream spout's Spark stage: sends its blobs to the workers in place of Spark's shuffle."""

from __future__ import annotations

import os
import select
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.task.messages import Envelope
from anchorbolt.engine.workers.frames import Frame, Kind
from anchorbolt.engine.workers.links import Address, Link, Secret, connect
from anchorbolt.engine.workers.rounds import Placement, Slot, Table
from anchorbolt.engine.workers.worker_rounds import FEED
from anchorbolt.errors import InfrastructureLost
from anchorbolt.serialization import pack, unpack

COUNTS_LEVEL = -1
"""In place of a level: the row of the stage that holds the number of blobs sent, by level and worker."""

_LOOK_S = 1.0  # between two looks whether the machine of a worker that takes nothing still answers

_links: dict[Address, Link] = {}  # kept for the next task of this process
_owner = 0  # the process that opened them: Spark forks its workers


def table_to_text(number: int, table: Table) -> str:
    """Encode what a task must know of the round: its number in the fleet, and where the workers listen."""
    addresses = [[slot, member.host, member.port] for slot, member in sorted(table.members.items())]
    return b64encode(pack([number, addresses])).decode()


class Feed:
    """The feed of one task in one round."""

    def __init__(self, plan: ExecutionPlan, secret: Secret, text: str, txid: int) -> None:
        """Create it; `text` is that of `table_to_text`."""
        self._plan = plan
        self._secret = secret
        self._txid = txid
        self._number, addresses = unpack(b64decode(text))
        self._addresses = {slot: Address(host, port, secret) for slot, host, port in addresses}
        self._sent: Counter[tuple[int, Slot]] = Counter()

    @cached_property
    def _placement(self) -> Placement:
        return Placement(self._plan.wiring, len(self._addresses))

    def pushed(self, envelopes: Iterable[Envelope]) -> Iterator[Envelope]:
        """Send the blobs for bolts to the workers; yield those for the driver, and at last the counts.

        Raises `InfrastructureLost` if a worker cannot be reached.
        """
        for envelope in envelopes:
            if envelope.level == self._plan.wiring.driver_level:
                yield envelope
                continue
            slot = self._placement.of(envelope.level, envelope.destination)
            self._sent[envelope.level, slot] += 1
            frame = Frame(Kind.BLOB, self._number, envelope.level, envelope.destination, envelope.payload)
            self._send(slot, frame)
        counts = [[level, slot, blobs] for (level, slot), blobs in self._sent.items()]
        yield Envelope(0, COUNTS_LEVEL, 0, pack(counts))

    def _send(self, slot: Slot, frame: Frame) -> None:
        """Send a frame; wait while the worker is behind, because a call of its bolts may last long."""
        address = self._addresses[slot]
        try:
            link = _link(address)
            link.send(frame)
            while link.bytes_waiting:
                if not _can_send(link):
                    link.end_if_dead()
                link.flush()
        except OSError as error:
            _forget(address)
            raise InfrastructureLost(
                f"a task of a spout cannot reach worker {slot} at {address.host}:{address.port}: {error}",
                txid=self._txid,
            ) from error


def _link(address: Address) -> Link:
    global _owner
    if _owner != os.getpid():
        _owner = os.getpid()
        _links.clear()
    if address not in _links:
        _links[address] = Link(connect(address, lambda _: pack([FEED, 0, 0])))
    return _links[address]


def _can_send(link: Link) -> bool:
    """Wait until the system takes more; return False if that lasts."""
    poll = select.poll()
    poll.register(link.socket, select.POLLOUT)
    return bool(poll.poll(_LOOK_S * 1000))


def _forget(address: Address) -> None:
    link = _links.pop(address, None)
    if link is not None:
        link.close()
