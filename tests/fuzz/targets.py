"""Everything that decodes bytes which Anchorbolt did not just make itself, and valid examples of them."""

from tests.fuzz.store_targets import STORE_TARGETS
from tests.fuzz.storm_targets import STORM_TARGETS
from tests.fuzz.target import Target
from tests.fuzz.value_targets import VALUE_TARGETS

__all__ = ["TARGETS", "Target"]

TARGETS: tuple[Target, ...] = (*STORE_TARGETS, *VALUE_TARGETS, *STORM_TARGETS)
