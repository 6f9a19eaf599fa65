"""Reads `offsets/<batch>`, where Spark writes the end of a micro-batch in each source. Pure.

In version 1 the line number identifies a source; in version 2 a line begins with the source's name.
"""

_VERSION = b"v1"
_NAMED_VERSION = b"v2"


def offsets_of(content: bytes) -> dict[str, bytes]:
    """Return the encoded offset of each source, by its number or name; empty for any other version."""
    version, *lines = content.splitlines() or [b""]
    if version == _VERSION:
        return {str(number): line for number, line in enumerate(lines[1:])}  # after the batch's metadata
    if version == _NAMED_VERSION:
        named = (line.partition(b":") for line in lines[1:])
        return {name.decode(errors="replace"): offset for name, _, offset in named}
    return {}
