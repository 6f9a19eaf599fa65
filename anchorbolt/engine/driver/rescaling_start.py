"""Divides the state of bolts whose parallelism the job has changed, at the start of a run: `topology.state.rescale`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import MigrationRefused, TopologyError
from anchorbolt.maintenance.one_transaction import OneTransaction
from anchorbolt.maintenance.rescaling import Rescaling
from anchorbolt.util.progress import Progress

_log = logging.getLogger("anchorbolt.checkpoint")


class _Logged(Progress):
    def begin(self, what: str, total: int | None) -> None:
        _log.info("topology.state.rescale: %s (%s entries)", what, "?" if total is None else f"{total:,}")


def rescaler(plan: ExecutionPlan) -> Callable[[DecisionRecord, DecisionLog], DecisionRecord]:
    """Return the function that moves entries to the tasks of this run, and returns the record of the transaction.

    The transaction before must be committed. The function raises `TopologyError` if a state cannot be divided: then it
    has changed nothing.
    """

    def rescale(record: DecisionRecord, log: DecisionLog) -> DecisionRecord:
        parallelism = {
            bolt: plan.wiring.parallelism(bolt) for bolt in plan.wiring.stateful_bolts if bolt in record.parallelism
        }
        try:
            rescaling = Rescaling(
                record,
                plan.wiring.prefix,
                parallelism,
                lambda *_: plan.key_codec,
                progress=_Logged(),
                new_state=plan.new_state,
            )
            if not rescaling.bolts:
                return record
            with ExitStack() as stack:
                storages = {
                    name: stack.enter_context(closing(plan.provider.open(name))) for name in rescaling.namespaces
                }
                fence = log.next_fence()
                heads = {name: storage.raise_fence(fence) for name, storage in storages.items()}
                bolts = rescaling.survey(storages, heads)
                moved = rescaling.move(OneTransaction(record, "start", storages, heads, fence, log))
        except MigrationRefused as error:
            raise TopologyError(f"topology.state.rescale: {error.message}") from error
        for each in bolts:
            _log.info(
                "bolt %r has %d tasks now instead of %d: %s of its %s keys were moved, as txid %d",
                *(each.component, each.after, each.before, f"{each.moving:,}", f"{each.entries:,}", moved.txid),
            )
        return moved

    return rescale
