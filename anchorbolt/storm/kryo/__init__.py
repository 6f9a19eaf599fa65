"""Reads the bytes that Storm's default serializer kept in a key-value state, in all five generations of the format.

Pure: bytes in, values out. It never loads a class of the user's and never runs code that the bytes name: an object that
needs its class is reported by the class name. Any bytes give a value or an `AnchorboltError`, in time and memory that
the length of the bytes limits. docs/storm_bytes.md lists the classes that can be read.

    values           the decoded values
    byte_reader      numbers and strings
    object_reader    classes, references and null
    scalars          objects that hold no other objects
    containers       collections, maps, arrays
    decoder          keys and values; the class of each id
    stored_form      the form in which Storm stored a hash
"""

from anchorbolt.storm.kryo.decoder import StormDecoder
from anchorbolt.storm.kryo.stored_form import StoredForm, detect
from anchorbolt.storm.kryo.values import JavaValue, Tombstone

__all__ = ["JavaValue", "StoredForm", "StormDecoder", "Tombstone", "detect"]
