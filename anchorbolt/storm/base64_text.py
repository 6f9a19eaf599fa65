"""Strict Base64 of Storm 1.0 and 1.1: a text that decodes here encodes to the same text again. Pure.

Storm 1.1 wrote one line. Storm 1.0 wrote lines of 76 characters with a line break after each full line, even the last.
Other encoders put a line break after every last line, and on Windows lines end in CR and LF. All of these are accepted.
Refused are the URL-safe alphabet, missing or superfluous padding, nonzero bits after the last byte, and other blanks.
"""

import re
from binascii import Error as BinasciiError
from binascii import a2b_base64, b2a_base64

_LINE = 76
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FOREIGN = re.compile(rb"[^A-Za-z0-9+/=\r\n]")
_TEXT_OF_A_RELATIVE = _ALPHABET + b"=-_ \t\r\n"


def decode(text: bytes) -> bytes | None:
    """Return the decoded bytes, or None if the text is not Base64; then `problem` says why."""
    try:
        data = a2b_base64(text)
    except BinasciiError:
        return None
    line = b2a_base64(data, newline=False)
    # a2b_base64 skips characters outside the alphabet. Only line breaks in the right places may be skipped.
    return data if line == text or line == _on_one_line(text) else None


def encode(data: bytes, *, in_lines: bool) -> bytes:
    """Return the text of Storm 1.0 (in lines, with a line break after each full line) or 1.1 (on one line)."""
    line = b2a_base64(data, newline=False)
    if not in_lines or len(line) < _LINE:
        return line
    without_last, with_last = _in_lines(line, b"\n")
    return without_last if len(line) % _LINE else with_last


def looks_like_base64(text: bytes) -> bool:
    """Return whether a text has only characters of the standard or URL-safe alphabet and blanks."""
    return not text.translate(None, _TEXT_OF_A_RELATIVE)


def problem(text: bytes) -> str:
    """Return why a text is not Base64, with at most one byte of it: messages must not contain stored data."""
    foreign = _FOREIGN.search(text)
    if foreign:
        where = f"at position {foreign.start()}"
        if foreign[0] in (b"-", b"_"):
            return f"{foreign[0].decode()!r} {where} is of the URL-safe alphabet"
        return f"byte 0x{foreign[0].hex()} {where} is not of its alphabet"
    if (b"\n" in text or b"\r" in text) and _on_one_line(text) is None:
        return f"a line break is elsewhere than after lines of {_LINE} characters"
    line = text.replace(b"\r", b"").replace(b"\n", b"")
    if len(line) % 4:
        return f"{len(line)} characters are not a multiple of 4, so some are missing or too many"
    if b"=" in line.rstrip(b"=") or line.endswith(b"==="):
        return "it is padded elsewhere than at its end"
    return "the bits after its last byte are not zero, which no encoder writes"


def _on_one_line(text: bytes) -> bytes | None:
    """Return a text without its line breaks, or None if a line break is in the wrong place."""
    line = text.replace(b"\r", b"").replace(b"\n", b"")
    return line if line and text in _in_lines(line, b"\r\n" if b"\r" in text else b"\n") else None


def _in_lines(line: bytes, end: bytes) -> tuple[bytes, bytes]:
    """Break a text into lines, without and with a break after the last one."""
    lines = end.join([line[start : start + _LINE] for start in range(0, len(line), _LINE)])
    return lines, lines + end
