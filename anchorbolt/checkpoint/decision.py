"""The decision record. The decision itself is made by `Transaction.decide` in `transaction.py`.

The record holds the driver's last decision; `decision_log` keeps it in the store and copies it to the checkpoint
location. Pure. A record comes from a store, so its bytes are not trusted.

After a COMMITTED record comes the next decision (`Transaction.decide`). After a COMMITTING record comes the same record
as COMMITTED (`marked_committed`). Between two transactions, a record may be written again with other facts
(`with_acked`, `with_ackers`). Facts that a run does not know, such as the acks of a removed spout, do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.state_machine import INITIAL_STATE, Action, CheckpointState, Phase
from anchorbolt.checkpoint.times import BoltTimes
from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.serialization import pack, unpack
from anchorbolt.spouts.message_ids import AckedMessages
from anchorbolt.state_backends.contract import START_OVER, Seal
from anchorbolt.streams.declaration import ACKER_ID

_VERSION = 5
_LARGEST_TASK_ID = 65_535
_READ = (4, _VERSION)  # version 4 lacks the location of replayed letters


@dataclass(frozen=True)
class Winner:
    """The attempt that a namespace must commit."""

    attempt: str
    base: int  # the committed txid that the attempt is based on
    seal: Seal


@dataclass(frozen=True)
class Committed:
    """The committed transaction of a namespace, and its winner."""

    txid: int  # the last transaction that changed the namespace
    attempt: str  # the winner of that transaction


Acked = Mapping[str, Sequence[AckedMessages]]
"""The acked messages that the source may not know of, by spout of the run; often empty."""


Inputs = tuple[tuple[str, str, str], ...]
"""The inputs of a bolt: the component and its stream, and the grouping as text."""


@dataclass(frozen=True)
class DecisionRecord:
    """A transaction's outcome, durable before any task can see COMMIT."""

    topology: str = ""  # empty before the first decision
    state: CheckpointState = INITIAL_STATE  # COMMITTING or COMMITTED, and the txid
    query_id: str = ""  # of the streaming query that the batch came from; empty before the first
    batch_id: int = -1  # the query's batch; -1 before the first
    offsets_digest: str = ""  # of the batch's offsets; empty if the source has none
    winners: Mapping[str, Winner] = field(default_factory=dict)  # by namespace that this transaction changes
    namespaces: Mapping[str, Committed] = field(default_factory=dict)  # ever changed, up to this transaction
    outbox: tuple[SinkFile, ...] = ()  # the sinks' files of this transaction
    parallelism: Mapping[str, int] = field(default_factory=dict)  # tasks per stateful bolt, which divide the state
    groupings: Mapping[str, Inputs] = field(default_factory=dict)  # by stateful bolt: how a tuple's task is chosen
    left_behind: tuple[str, ...] = ()  # removed bolts with state; the loss was accepted
    schemas: Mapping[str, bytes] = field(default_factory=dict)  # by sink: its columns, once it has written
    state_schemas: Mapping[str, int] = field(default_factory=dict)  # by bolt: its schema version, if above 1
    acked: tuple[AckedMessages, ...] = ()  # of spouts with stable message ids; until the sources know of the acks
    dead_letters: tuple[DeadLetter, ...] = ()  # of this transaction
    # By location: the dead letters there that a transaction has replayed, until they are moved away.
    replayed: Mapping[str, str] = field(default_factory=dict)
    # Spouts by the task ids in the ackers' state, including removed spouts; empty for a spout without stable ids.
    spout_tasks: Mapping[int, str] = field(default_factory=dict)
    batch_spout: str = ""  # the id and kind of a transactional topology's spout; empty for an ordinary topology
    batch: bytes = b""  # the encoded metadata of this transaction's batch, in a transactional topology
    # Number of tasks by committer in the run that may have begun to commit the next batch; empty after a clean end.
    committers: Mapping[str, int] = field(default_factory=dict)
    journals: tuple[str, ...] = ()  # the committers with a journal, see `anchorbolt.transactional.OpaqueMap`
    clock: int = 0  # of this transaction's wave, in ms since 1970
    times: Mapping[str, BoltTimes] = field(default_factory=dict)  # by bolt that has timers, event time or a TTL

    @property
    def txid(self) -> int:
        return self.state.txid

    def marked_committed(self) -> DecisionRecord:
        """Return the record of the same transaction, committed. Raises `ValueError` if it is not COMMITTING."""
        return replace(self, state=self.state.after(Action.COMMIT))

    def acked_after(self, known: Acked) -> tuple[AckedMessages, ...]:
        """Return `acked` with the acks in `known`; the acks of all other spouts stay."""
        kept = (messages for messages in self.acked if messages.component not in known)
        return (*kept, *(messages for each in known.values() for messages in each))

    def with_acked(self, known: Acked) -> DecisionRecord:
        """Return the record with the acks in `known`, between two waves. Raises `ValueError` if it is not COMMITTED."""
        return replace(self._between_transactions(), acked=self.acked_after(known))

    def with_ackers(self, ackers: int) -> DecisionRecord:
        """Return the record with more ackers, between two waves. Raises `ValueError` if it is not COMMITTED."""
        return replace(self._between_transactions(), parallelism={**self.parallelism, ACKER_ID: ackers})

    def with_watermark(self, bolt: str, watermark: int) -> DecisionRecord:
        """Return the record with this watermark of a bolt. Raises `ValueError` if it is not COMMITTED."""
        times = replace(self.times[bolt], watermark=watermark)
        return replace(self._between_transactions(), times={**self.times, bolt: times})

    def replayed_after(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return `replayed` with the letters in `known`, by location (empty for none); other locations stay."""
        return {place: letters for place, letters in {**self.replayed, **known}.items() if letters}

    def with_committers(self, committers: Mapping[str, int]) -> DecisionRecord:
        """Return the record with these committers, between two waves. Raises `ValueError` if it is not COMMITTED."""
        return replace(self._between_transactions(), committers=committers)

    def _of_batches(self) -> dict[str, Any]:
        return {
            "batch_spout": self.batch_spout,
            "batch": self.batch,
            "committers": dict(self.committers),
            "journals": list(self.journals),
        }

    def _between_transactions(self) -> DecisionRecord:
        if self.state.phase is not Phase.COMMITTED:
            raise ValueError(f"the record of {self.state} belongs to its transaction: nothing else may change it")
        return self

    def encode(self) -> bytes:
        return pack(
            {
                "version": _VERSION,
                "topology": self.topology,
                "txid": self.txid,
                "phase": self.state.phase.value,
                "query_id": self.query_id,
                "batch_id": self.batch_id,
                "offsets_digest": self.offsets_digest,
                "winners": {
                    name: [winner.attempt, winner.base, winner.seal.slices, winner.seal.checksum]
                    for name, winner in self.winners.items()
                },
                "namespaces": {name: [at.txid, at.attempt] for name, at in self.namespaces.items()},
                "outbox": [
                    [file.component, file.task_index, file.path, file.rows, file.schema, file.number]
                    for file in self.outbox
                ],
                "parallelism": dict(self.parallelism),
                "groupings": {name: list(map(list, inputs)) for name, inputs in self.groupings.items()},
                "left_behind": list(self.left_behind),
                "schemas": dict(self.schemas),
                "state_schemas": dict(self.state_schemas),
                "acked": [[messages.component, messages.packed] for messages in self.acked],
                "replayed": dict(self.replayed),
                "dead_letters": [letter.encode() for letter in self.dead_letters],
                "spout_tasks": dict(self.spout_tasks),
                "clock": self.clock,
                "times": {name: times.encode() for name, times in self.times.items()},
                **(self._of_batches() if self.batch_spout else {}),
            }
        )

    @classmethod
    def decode(cls, data: bytes, where: str) -> DecisionRecord:
        """Decode the bytes of `encode`; `where` names their place in error messages.

        Raises `StateCorrupted` if the bytes are not a decision record, or a record of another version.
        """
        try:
            content: dict[str, Any] = unpack(data)
            if content["version"] not in _READ:
                raise StateCorrupted(
                    f"the decision record in {where} has version {content['version']!r}; this Anchorbolt reads version "
                    f"{_VERSION}. Use the Anchorbolt that wrote it."
                )
            return cls(
                topology=str(content["topology"]),
                state=CheckpointState(int(content["txid"]), Phase(content["phase"])),
                query_id=str(content["query_id"]),
                batch_id=int(content["batch_id"]),
                offsets_digest=str(content["offsets_digest"]),
                winners={
                    str(name): Winner(str(attempt), int(base), Seal(int(slices), int(checksum)))
                    for name, (attempt, base, slices, checksum) in content["winners"].items()
                },
                namespaces={
                    str(name): Committed(int(txid), str(attempt))
                    for name, (txid, attempt) in content["namespaces"].items()
                },
                outbox=tuple(_sink_file(*file) for file in content["outbox"]),
                parallelism={str(name): int(tasks) for name, tasks in content["parallelism"].items()},
                groupings={
                    str(name): tuple((str(source), str(stream), str(text)) for source, stream, text in inputs)
                    for name, inputs in content.get("groupings", {}).items()
                },
                left_behind=tuple(map(str, content.get("left_behind", ()))),
                schemas={str(name): _columns(schema) for name, schema in content["schemas"].items()},
                state_schemas={str(name): int(version) for name, version in content["state_schemas"].items()},
                acked=tuple(
                    AckedMessages(str(name), memoryview(packed).tobytes()) for name, packed in content["acked"]
                ),
                replayed=_replayed(content["replayed"]),
                dead_letters=tuple(map(DeadLetter.decode, content["dead_letters"])),
                spout_tasks={int(id): str(name) for id, name in content["spout_tasks"].items()},
                batch_spout=str(content.get("batch_spout", "")),
                batch=memoryview(content.get("batch", b"")).tobytes(),
                committers={str(name): int(tasks) for name, tasks in content.get("committers", {}).items()},
                journals=tuple(map(str, content.get("journals", ()))),
                clock=int(content.get("clock", 0)),
                times={str(name): BoltTimes.decode(times) for name, times in content.get("times", {}).items()},
            )
        except (SerializationError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateCorrupted(
                f"the decision record in {where} cannot be read: {type(error).__name__}: {error}. {START_OVER}."
            ) from error


def _columns(stored: Any) -> bytes:
    """Return the columns of a sink. Version 4 stored them as text: these are inferred again."""
    return b"" if isinstance(stored, str) else memoryview(stored).tobytes()


def _replayed(stored: Any) -> dict[str, str]:
    """Return the letters by location. Letters of version 4 get the empty location, which stands for any."""
    by_place = {"": stored} if isinstance(stored, str) else stored
    return {str(place): str(letters) for place, letters in by_place.items() if letters}


def _sink_file(component: Any, index: Any, path: Any, rows: Any, columns: Any, number: Any = 1) -> SinkFile:
    return SinkFile(str(component), int(index), str(path), int(rows), _columns(columns), int(number))


def carried_spout_tasks(before: Mapping[int, str], now: Mapping[int, str]) -> dict[int, str]:
    """Return the spouts by the task ids in the trees that a run stores.

    Each run numbers its tasks again. A removed spout gets an id that no spout of this run has, so that its open trees
    find it again.

    Args:
        before: The spouts by the task ids in the stored trees; an empty name for a spout to forget.
        now: The spouts of this run by the ids of their tasks.
    """
    names = {**before, **now}
    without_id = {name for name in before.values() if name} - set(names.values())
    free = (id for id in range(_LARGEST_TASK_ID, 0, -1) if id not in names)
    return names | {next(free): name for name in sorted(without_id)}
