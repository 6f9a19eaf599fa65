"""State as Storm wrote it, made anew from docs/storm_bytes.md, without the tested code."""

import base64
import textwrap

from tests.storm.kryo_encoder import Encoder

B_PRESENT = b"\x01\x00com.google.common.base.Presen\xf4\x01\x01\x01[\xc2\x01"
C_PRESENT = b"\x01\x00org.apache.storm.shade.com.google.common.base.Presen\xf4\x01\x01\x01[\xc2\x01"
B_ABSENT = b"\x01\x00com.google.common.base.Absen\xf4\x01"
E_PRESENT = b"\x0b\x01\x00[\xc2"
E_ABSENT = b"\x0b\x00"
C_ABSENT = b"\x01\x00org.apache.storm.shade.com.google.common.base.Absen\xf4\x01"

Entries = dict[bytes, bytes]


_KRYO_3 = Encoder(kryo_5=False)
_KRYO_5 = Encoder(kryo_5=True)
string = _KRYO_3.string


def integer(number: int) -> bytes:
    return b"\x02" + _KRYO_3.signed(number)


def one_line(data: bytes) -> bytes:
    return base64.b64encode(data)


def in_lines(data: bytes) -> bytes:
    """As `sun.misc.BASE64Encoder.encode`: a line break after each full line, none after one that is not full."""
    lines = textwrap.wrap(base64.b64encode(data).decode(), 76)
    return "".join(line + "\n" if len(line) == 76 else line for line in lines).encode()


def storm_1_0(entries: Entries) -> Entries:
    """What Storm 1.0 keeps for serialised keys and values."""
    return {in_lines(key): in_lines(value) for key, value in entries.items()}


def storm_1_1(entries: Entries, deleted: tuple[bytes, ...] = ()) -> Entries:
    """What Storm 1.1 keeps for them, and its tombstones for those deleted."""
    present = {key: B_PRESENT + _KRYO_3.number(len(value) + 1) + value for key, value in entries.items()}
    return {one_line(key): one_line(value) for key, value in {**present, **dict.fromkeys(deleted, B_ABSENT)}.items()}


def storm_1_2(entries: Entries, deleted: tuple[bytes, ...] = ()) -> Entries:
    """What Storm 1.2 keeps for them."""
    present = {key: C_PRESENT + _KRYO_3.number(len(value) + 1) + value for key, value in entries.items()}
    return {**present, **dict.fromkeys(deleted, C_ABSENT)}


def words_2_6(count: int, first: int = 0, deleted: tuple[str, ...] = ()) -> Entries:
    """The words of `words` and their counts, and tombstones, as Storm 2.6 keeps them."""
    payloads = {f"word-{number}": b"\x02" + _KRYO_5.signed(number) for number in range(first, first + count)}
    present = {word: E_PRESENT + _KRYO_5.number(len(value) + 1) + value for word, value in payloads.items()}
    entries = {**present, **dict.fromkeys(deleted, E_ABSENT)}
    return {_KRYO_5.string(word): value for word, value in entries.items()}


def plain(entries: Entries) -> Entries:
    """An independent decode of Base64 text."""
    return {base64.b64decode(key): base64.b64decode(value) for key, value in entries.items()}


def words(count: int, first: int = 0) -> Entries:
    """Serialised words and their counts."""
    return {string(f"word-{number}"): integer(number) for number in range(first, first + count)}
