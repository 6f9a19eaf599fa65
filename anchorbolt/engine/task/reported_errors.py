"""The latest error that a task has reported by `report_error`, as its report tells it: short, and without secrets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from anchorbolt.config.masking import Masking, secrets_in

if TYPE_CHECKING:
    from anchorbolt.engine.submit.plan import ExecutionPlan

MOST_CHARACTERS = 500


class ReportedError(NamedTuple):
    """An error that does not fail the wave."""

    at: float  # seconds since 1970, by the clock of the task's machine
    text: str  # at most 500 characters


def reported_error(plan: ExecutionPlan, at: float, text: str) -> ReportedError:
    """Return an error to send to the driver. Secrets are masked before the text is cut: a part of one is not found."""
    return ReportedError(at, _masking(plan).without_secrets(text)[:MOST_CHARACTERS])


@lru_cache(maxsize=4)
def _masking(plan: ExecutionPlan) -> Masking:
    return Masking([*secrets_in(plan.conf), *secrets_in(plan.settings)])
