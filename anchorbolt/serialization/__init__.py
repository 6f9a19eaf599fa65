"""Values to bytes and back: the codecs of keys and values, and of the tuples between tasks.

Bytes are untrusted: decoding yields plain values or `SerializationError`, never runs code, and is limited in depth.
`anchorbolt.storm` reads Storm's bytes; nothing here imports it.
"""

from anchorbolt.serialization.codecs import MAX_DEPTH, Codec, JsonCodec, MsgpackCodec
from anchorbolt.serialization.msgpack_values import pack, unpack

__all__ = ["MAX_DEPTH", "Codec", "JsonCodec", "MsgpackCodec", "pack", "unpack"]
