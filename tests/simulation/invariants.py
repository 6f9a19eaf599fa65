"""The invariants of the protocol, checked after every step that changed something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import STATE_KEY
from anchorbolt.checkpoint.state_machine import Phase
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, Fence, Seal
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.memory import _Namespace

if TYPE_CHECKING:
    from tests.simulation.world import World

NAME = "simulated"
"""The topology of every simulation."""
CHECKPOINT_NAMESPACE = f"{NAME}:$checkpointspout-0"

_CODEC = MsgpackCodec()
_ENCODING = EntryEncoding("simulated", _CODEC, _CODEC)
[_STATE_KEY] = _ENCODING.key_bytes([STATE_KEY])


class Violation(BaseException):
    """An invariant does not hold. No `except Exception` of the tested code may swallow it."""


class Invariants:
    """What must hold in a world, whatever its topology computes.

    Once the store went back in time, what a driver that is at work writes there may contradict the rest of it for a
    while; then it is the outcome that counts: the run halts with `StateRegressed`, or everything is as it should be.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._decided: dict[int, DecisionRecord] = {}

    def before(self, namespace: str, fence: Fence | None) -> _Namespace:
        """Note what has to be known of a namespace before a call: its entries, if they must not change."""
        store = self.store(namespace)
        entries = dict(store.entries) if _is_lower(fence, store) else {}
        return _Namespace(store.metadata, entries, dict(store.records))

    def after(self, namespace: str, call: str, fence: Fence | None, before: _Namespace, *, refused: bool) -> None:
        """Check a namespace after a call, whatever came of it."""
        store = self.store(namespace)
        parts = ("metadata", "records", "entries")
        if _is_lower(fence, before) and any(getattr(store, part) != getattr(before, part) for part in parts):
            raise Violation(f"a lower fence had an effect: {call} on {namespace}")
        if store.metadata.fence < before.metadata.fence:
            raise Violation(f"the fence of {namespace} was lowered by {call}")
        if (store.metadata.committed, store.metadata.winner) != (before.metadata.committed, before.metadata.winner):
            self._committed(namespace, store, before)
        if namespace == CHECKPOINT_NAMESPACE and call == "write" and not refused:
            self._recorded()

    def check_committed(self, record: DecisionRecord) -> None:
        """COMMITTED: every namespace is where the record says, and holds what it should."""
        for name, at in record.namespaces.items():
            store = self.store(name)
            if (store.metadata.committed, store.metadata.winner) != (at.txid, at.attempt):
                raise Violation(f"txid {record.txid} is COMMITTED, and {name} is at {store.metadata.committed}")
            self.check_entries(name, store)

    def check_record(self, record: DecisionRecord) -> None:
        """Check a record that a driver has written."""

    def check_entries(self, namespace: str, store: _Namespace) -> None:
        """Check the committed entries of a namespace."""

    def at_the_end(self) -> None:
        """Check the whole outcome once everything is done and nobody runs any more."""
        self.nothing_staged()

    def nothing_staged(self) -> None:
        """Check that no namespace keeps an attempt of a wave that is over."""
        for namespace, store in self._world.store.contents.items():
            if store.records:
                raise Violation(f"{namespace} keeps leftovers: {store.records}")

    def record(self) -> DecisionRecord | None:
        """Return the decision record that the store holds."""
        data = self.store(CHECKPOINT_NAMESPACE).entries.get(_STATE_KEY)
        return None if data is None else DecisionRecord.decode(data, "the simulated store")

    def store(self, namespace: str) -> _Namespace:
        """Return what the store holds of a namespace."""
        return self._world.store.contents.get(namespace) or _Namespace()

    def _committed(self, namespace: str, store: _Namespace, before: _Namespace) -> None:
        txid, attempt = store.metadata.committed, store.metadata.winner
        staged = before.records.get(attempt)
        if staged is None or staged.base != before.metadata.committed:
            raise Violation(f"{namespace} committed txid {txid} over {before.metadata.committed}: {staged}")
        self.check_entries(namespace, store)
        record = self.record()
        winner = None if record is None else record.winners.get(namespace)
        recorded = record is not None and record.txid == txid and winner is not None and winner.attempt == attempt
        if not recorded and not self._world.regressed:
            raise Violation(f"{namespace} committed txid {txid} of {attempt}, which is not what was recorded")

    def _recorded(self) -> None:
        record = self.record()
        if record is None:
            raise Violation("the decision record is gone")
        self.check_record(record)
        if self._world.regressed or record.txid < 0:
            return
        if record.state.phase is Phase.COMMITTED:
            self.check_committed(record)
            return
        decided = self._decided.setdefault(record.txid, record)
        if decided.winners != record.winners:
            raise Violation(f"transaction {record.txid} was decided twice, with different winners")
        for namespace, winner in record.winners.items():
            store = self.store(namespace)
            staged = store.records.get(winner.attempt)
            committable = (
                staged is not None
                and staged.sealed
                and Seal(staged.slices, staged.checksum) == winner.seal
                and staged.base == store.metadata.committed == winner.base
            )
            if not committable and store.metadata.winner != winner.attempt:
                raise Violation(f"txid {record.txid} was decided, and {namespace} cannot commit it: {staged}")


def entries_of(store: _Namespace) -> dict[Any, Any]:
    """Decode the committed entries of a bolt's namespace."""
    if store.metadata.committed == NOTHING_COMMITTED:
        return {}
    return {_CODEC.decode(key): _CODEC.decode(value) for key, value in store.entries.items()}


def _is_lower(fence: Fence | None, store: _Namespace) -> bool:
    return fence is not None and fence < store.metadata.fence
