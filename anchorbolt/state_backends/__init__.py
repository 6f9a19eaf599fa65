"""Durable state for bolts: the key-value state that job authors use, and the stores that it can lie in."""

from anchorbolt.serialization.serializers import Serializer
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.state_backends.state import AttemptState, State

__all__ = ["AttemptState", "KeyValueState", "Serializer", "State"]
