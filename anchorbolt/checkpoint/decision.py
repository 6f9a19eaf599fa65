"""The decision record. The decision itself is made by `Transaction.decide` in `transaction.py`.

The record holds the driver's last decision; `decision_log` keeps it in the store and copies it to the checkpoint
location. Pure. A record comes from a store, so its bytes are not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anchorbolt.acker.message_ids import AckedMessages
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.state_machine import INITIAL_STATE, CheckpointState, Phase
from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import START_OVER, Seal

_VERSION = 4


@dataclass(frozen=True)
class Winner:
    """The attempt that a namespace has to commit."""

    attempt: str
    base: int  # the committed txid that the attempt is based on
    seal: Seal


@dataclass(frozen=True)
class Committed:
    """The committed transaction of a namespace, and its winner."""

    txid: int  # the last transaction that changed the namespace
    attempt: str  # the winner of that transaction


@dataclass(frozen=True)
class DecisionRecord:
    """A transaction's outcome, durable before any task can see COMMIT."""

    topology: str = ""  # empty before the first decision
    state: CheckpointState = INITIAL_STATE  # COMMITTING or COMMITTED, and the txid
    query_id: str = ""  # of the streaming query that the batch came from; empty before the first
    batch_id: int = -1  # the query's batch; -1 before the first
    offsets_digest: str = ""  # of the batch's offsets; empty if the source has none
    winners: Mapping[str, Winner] = field(default_factory=dict)  # by namespace that this transaction changes
    namespaces: Mapping[str, Committed] = field(default_factory=dict)  # all ever changed, this transaction's included
    outbox: tuple[SinkFile, ...] = ()  # the sinks' files of this transaction
    parallelism: Mapping[str, int] = field(default_factory=dict)  # tasks per stateful bolt: they divide the state
    schemas: Mapping[str, str] = field(default_factory=dict)  # by sink: its columns, once it has written
    state_schemas: Mapping[str, int] = field(default_factory=dict)  # by bolt: its schema version, if above 1
    acked: tuple[AckedMessages, ...] = ()  # of spouts with stable message ids; until the spouts have told their sources
    dead_letters: tuple[DeadLetter, ...] = ()  # of this transaction
    replayed: str = ""  # the file of dead letters that this transaction has processed again
    spout_tasks: Mapping[int, str] = field(default_factory=dict)  # the spouts, by the task ids in the ackers' state
    batch_spout: str = ""  # of a transactional topology: the id and kind of its spout; empty for an ordinary one
    batch: bytes = b""  # of a transactional topology: the metadata of this transaction's batch, encoded

    @property
    def txid(self) -> int:
        return self.state.txid

    def marked_committed(self) -> DecisionRecord:
        """Return the record of the same transaction, committed."""
        return replace(self, state=CheckpointState(self.txid, Phase.COMMITTED))

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
                    [file.component, file.task_index, file.path, file.rows, file.schema] for file in self.outbox
                ],
                "parallelism": dict(self.parallelism),
                "schemas": dict(self.schemas),
                "state_schemas": dict(self.state_schemas),
                "acked": [[messages.component, messages.packed] for messages in self.acked],
                "replayed": self.replayed,
                "dead_letters": [letter.encode() for letter in self.dead_letters],
                "spout_tasks": dict(self.spout_tasks),
                **({"batch_spout": self.batch_spout, "batch": self.batch} if self.batch_spout else {}),
            }
        )

    @classmethod
    def decode(cls, data: bytes, where: str) -> DecisionRecord:
        """Decode what `encode` wrote; `where` names the place of the bytes in messages.

        Raises `StateCorrupted` if the bytes are not a decision record, or a record of another version.
        """
        try:
            content: dict[str, Any] = unpack(data)
            if content["version"] != _VERSION:
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
                outbox=tuple(
                    SinkFile(str(component), int(index), str(path), int(rows), str(schema))
                    for component, index, path, rows, schema in content["outbox"]
                ),
                parallelism={str(name): int(tasks) for name, tasks in content["parallelism"].items()},
                schemas={str(name): str(schema) for name, schema in content["schemas"].items()},
                state_schemas={str(name): int(version) for name, version in content["state_schemas"].items()},
                acked=tuple(
                    AckedMessages(str(name), memoryview(packed).tobytes()) for name, packed in content["acked"]
                ),
                replayed=str(content["replayed"]),
                dead_letters=tuple(map(DeadLetter.decode, content["dead_letters"])),
                spout_tasks={int(id): str(name) for id, name in content["spout_tasks"].items()},
                batch_spout=str(content.get("batch_spout", "")),
                batch=memoryview(content.get("batch", b"")).tobytes(),
            )
        except (SerializationError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateCorrupted(
                f"the decision record in {where} cannot be read: {type(error).__name__}: {error}. {START_OVER}."
            ) from error
