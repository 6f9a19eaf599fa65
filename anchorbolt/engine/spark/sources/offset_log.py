"""Reads `offsets/<batch>`, in which Spark keeps how far a micro-batch reads each source. Pure.

In version 1 a source is the number of its line; in version 2 its name stands before the offset.
"""

_VERSION = b"v1"
_NAMED_VERSION = b"v2"


def offsets_of(content: bytes) -> dict[str, bytes]:
    """Return the offset of each source as it stands there, by its number or name; empty for another version."""
    version, *lines = content.splitlines() or [b""]
    if version == _VERSION:
        return {str(number): line for number, line in enumerate(lines[1:])}  # after the batch's metadata
    if version == _NAMED_VERSION:
        named = (line.partition(b":") for line in lines[1:])
        return {name.decode(errors="replace"): offset for name, _, offset in named}
    return {}
