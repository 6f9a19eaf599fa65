"""What a starting driver reads before and after it claims the topology, and all reasons to refuse to start."""

from __future__ import annotations

import time
from dataclasses import dataclass

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import CheckpointSpout
from anchorbolt.checkpoint.recovery import (
    RecoveryPlan,
    check_codec,
    check_parallelism,
    check_query,
    check_state_schemas,
    check_topology,
    plan_recovery,
)
from anchorbolt.engine.driver.namespaces import Namespaces
from anchorbolt.engine.driver.retry import Patience
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.errors import CodecMismatch, QueryChanged, StateRegressed, TopologyError
from anchorbolt.state_backends.contract import Fence, NamespaceHead

_LOOKS = 5
_BETWEEN_LOOKS_S = 0.3


@dataclass(frozen=True)
class Start:
    """What a survey found.

    Attributes:
        is_new: Whether there was no decision record.
        plan: What recovery has to do.
        heads: Where every namespace stands.
    """

    is_new: bool
    plan: RecoveryPlan
    heads: dict[str, NamespaceHead]


class Survey:
    """Reads records and namespaces, and refuses what cannot be started from."""

    def __init__(
        self, plan: ExecutionPlan, spout: CheckpointSpout, namespaces: Namespaces, patience: Patience
    ) -> None:
        self._plan = plan
        self._spout = spout
        self._namespaces = namespaces
        self._patience = patience

    def refuse_early(self, query_id: str, *, accept_new: bool) -> None:
        """Look before anything is written, the fence included; what is in order passes at once.

        An older driver that still runs can make a store look inconsistent while it commits, so only a record that
        stays the same counts.

        Args:
            query_id: Id of the streaming query at the checkpoint location; empty for a new location.
            accept_new: Whether the state may be gone on with by another query.

        Raises:
            AnchorboltError: Why this topology cannot be started over this store and location.
        """
        for look in range(_LOOKS):
            before = self._patience.until_available(self._spout.load)
            try:
                self._check_records(*before, query_id, accept_new=accept_new)
                heads = self._namespaces.heads()
                self._judge(*before, heads)
                self._patience.until_available(lambda: self._spout.check_generation(heads))  # noqa: B023 - at once
                return
            except (StateRegressed, CodecMismatch):
                after = self._patience.until_available(self._spout.load)
                if before == after or look == _LOOKS - 1:
                    raise
                time.sleep(_BETWEEN_LOOKS_S)

    def after_claim(self, fence: Fence) -> Start:
        """Raise the fence in every namespace, then read, then decide what recovery does."""
        stored, copied = self._patience.until_available(self._spout.load)
        self._open(stored, copied)
        heads = self._namespaces.raise_fence(fence)
        return Start(stored is None, self._judge(stored, copied, heads), heads)

    def _check_records(
        self, stored: DecisionRecord | None, copied: DecisionRecord | None, query_id: str, *, accept_new: bool
    ) -> None:
        check_topology(self._plan.topology, stored, copied)
        self._open(stored, copied)
        record = stored or copied or DecisionRecord()
        if stored is None and copied is None and query_id and not accept_new:
            raise QueryChanged(
                f"the checkpoint location belongs to streaming query {query_id}, of which the state store knows "
                "nothing: it would not be read from its start. Nothing was changed. Use a new checkpoint location. To "
                "go on where that query stands, set topology.checkpoint.accept.new.query to true for one run."
            )
        check_query(record, query_id, accept_new=accept_new)
        check_parallelism(record, self._plan.stateful_parallelism())

    def _open(self, stored: DecisionRecord | None, copied: DecisionRecord | None) -> None:
        names = set(self._plan.namespaces())
        for record in (stored, copied):
            if record is not None:
                names.update(record.namespaces)
        self._namespaces.open(sorted(names))

    def _judge(
        self, stored: DecisionRecord | None, copied: DecisionRecord | None, heads: dict[str, NamespaceHead]
    ) -> RecoveryPlan:
        plan = plan_recovery(stored, copied, heads)
        check_state_schemas(plan.record, self._plan.state_schema_versions)
        for namespace in self._plan.namespaces():
            check_codec(namespace, heads[namespace].codec, self._header(namespace))
        for namespace in plan.roll_forward:
            if heads[namespace].codec == CUSTOM_HEADER and not self._namespaces.is_custom(namespace):
                raise TopologyError(
                    f"the decided txid {plan.record.txid} changes the custom state {namespace!r}, whose bolt the "
                    "topology no longer has. Start it once more with that bolt, so that the state is committed."
                )
        return plan

    def _header(self, namespace: str) -> str:
        return CUSTOM_HEADER if self._namespaces.is_custom(namespace) else self._plan.codec_header(namespace)
