"""Durable state for bolts: the key-value state that job authors use, and its stores.

`contract` is the interface of a store, and `rules` checks each step of a transaction; `memory` and the sub-packages are
the stores.
"""

from anchorbolt.serialization.codecs import Serializer
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.state import AttemptState, State

__all__ = ["AttemptState", "KeyValueState", "Serializer", "State"]
