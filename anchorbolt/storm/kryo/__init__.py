"""Reads the bytes that Storm's default serializer kept in a key-value state, in all five generations of the format.

Pure: bytes in, values out. It never loads a user's class and never runs code that the bytes name: an object that needs
its class is reported by the class name. Any bytes give a value or an `AnchorboltError`, in time and memory that the
length of the bytes limits. docs/storm_bytes.md lists the classes that can be read.
"""

from anchorbolt.storm.kryo.decoder import StormDecoder
from anchorbolt.storm.kryo.stored_form import StoredForm, detect
from anchorbolt.storm.kryo.values import JavaValue, Tombstone

__all__ = ["JavaValue", "StoredForm", "StormDecoder", "Tombstone", "detect"]
