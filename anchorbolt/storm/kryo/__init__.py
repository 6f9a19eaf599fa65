"""Reads what Storm's default serializer kept in a key-value state, in all five generations of the format.

Pure: bytes in, values out. No class of the user is ever loaded, and no code that the bytes name is run: what cannot be
read without its class is reported by the class's name. Any bytes give a value or an error of our tree, in time and
memory that the bytes' length bounds. docs/storm_bytes.md says what can be read.

    values           the decoded values
    byte_reader      numbers and strings
    object_reader    classes, references and null
    scalars          what is written of objects that hold no others
    containers       what is written of collections, maps, arrays
    layouts          which class each id stands for
    decoder          keys and values
    stored_form      in which form Storm stored a hash
"""

from anchorbolt.storm.kryo.decoder import StormDecoder
from anchorbolt.storm.kryo.stored_form import StoredForm, detect
from anchorbolt.storm.kryo.values import JavaValue, Tombstone

__all__ = ["JavaValue", "StoredForm", "StormDecoder", "Tombstone", "detect"]
