"""What was submitted, made ready to run: the topology's plan and the settings of its waves."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anchorbolt.engine.plan import EngineSettings, ExecutionPlan
from anchorbolt.state_backends.base import StateProvider
from anchorbolt.topology.graph import Topology

__all__ = ["Submission", "prepare_submission"]


@dataclass(frozen=True)
class Submission:
    """A topology with all that its run needs.

    Attributes:
        plan: The topology's plan.
        max_batch_retries: How often a failed batch is tried again.
        checkpoint_interval_ms: Shortest wave, in ms.
        patience_ms: How long to wait for a store that does not answer, in ms.
        accept_new_query: Whether to go on with another streaming query than the state came from.
    """

    plan: ExecutionPlan
    max_batch_retries: int
    checkpoint_interval_ms: int
    patience_ms: float
    accept_new_query: bool
