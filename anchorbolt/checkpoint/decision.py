"""The decision record: what the driver decided last, as it lies in the state provider and, copied, beside the source.

Pure: encoding and checks only. A record comes from a store and is not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.state_machine import INITIAL_STATE, CheckpointState, Phase
from anchorbolt.errors import SerializationError, StateCorrupted
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.contract import START_OVER, Seal

_VERSION = 1
_VERSION_WITH_STATE_SCHEMAS = 2
"""So that an Anchorbolt that knows nothing of state schemas does not start over values that it cannot read."""


@dataclass(frozen=True)
class Winner:
    """The attempt that a namespace has to commit.

    Attributes:
        attempt: Its id.
        base: The committed txid that it is based on.
        seal: What it staged.
    """

    attempt: str
    base: int
    seal: Seal


@dataclass(frozen=True)
class Committed:
    """Where a namespace stands after the record's transaction.

    Attributes:
        txid: The last transaction that changed it.
        attempt: The attempt which that came from.
    """

    txid: int
    attempt: str


@dataclass(frozen=True)
class DecisionRecord:
    """A transaction's outcome, durable before any task is told to commit.

    Attributes:
        topology: Name of the topology; empty before the first decision.
        state: COMMITTING or COMMITTED, and the txid.
        query_id: Id of the streaming query that the batch came from; empty before the first.
        batch_id: The query's batch; -1 before the first.
        offsets_digest: Digest of the batch's offsets, empty where the source has none.
        winners: For each namespace that this transaction changes, the attempt to commit.
        namespaces: For each namespace ever changed, where it stands after this transaction.
        outbox: The sinks' files of this transaction.
        parallelism: Tasks per stateful bolt; the state is divided by it.
        schemas: For each sink that ever wrote, its columns.
        state_schemas: For each stateful bolt whose values were ever decided under a later schema version than 1, that
            version.
    """

    topology: str = ""
    state: CheckpointState = INITIAL_STATE
    query_id: str = ""
    batch_id: int = -1
    offsets_digest: str = ""
    winners: Mapping[str, Winner] = field(default_factory=dict)
    namespaces: Mapping[str, Committed] = field(default_factory=dict)
    outbox: tuple[SinkFile, ...] = ()
    parallelism: Mapping[str, int] = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)
    state_schemas: Mapping[str, int] = field(default_factory=dict)

    @property
    def txid(self) -> int:
        """The record's transaction."""
        return self.state.txid

    def committed(self) -> DecisionRecord:
        """Return the record of the same transaction, committed."""
        return replace(self, state=CheckpointState(self.txid, Phase.COMMITTED))

    def encode(self) -> bytes:
        """Encode for the store."""
        versioned = {"state_schemas": dict(self.state_schemas)} if self.state_schemas else {}
        return pack(
            {
                "version": _VERSION_WITH_STATE_SCHEMAS if versioned else _VERSION,
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
                    [file.component, file.task_index, file.path, file.rows, file.schema]
                    for file in self.outbox
                ],
                "parallelism": dict(self.parallelism),
                "schemas": dict(self.schemas),
                **versioned,
            }
        )

    @classmethod
    def decode(cls, data: bytes, where: str) -> DecisionRecord:
        """Decode what `encode` wrote.

        Args:
            data: The bytes.
            where: Where they lie, for the message.

        Raises:
            StateCorrupted: They are no decision record, or one of a later version.
        """
        try:
            content: dict[str, Any] = unpack(data)
            if content["version"] not in (_VERSION, _VERSION_WITH_STATE_SCHEMAS):
                raise StateCorrupted(
                    f"the decision record in {where} has version {content['version']!r}; this Anchorbolt reads up to "
                    f"version {_VERSION_WITH_STATE_SCHEMAS}. Use the version that wrote it."
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
                state_schemas={
                    str(name): int(version) for name, version in content.get("state_schemas", {}).items()
                },
            )
        except (SerializationError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateCorrupted(
                f"the decision record in {where} cannot be read: {type(error).__name__}: {error}. {START_OVER}."
            ) from error
