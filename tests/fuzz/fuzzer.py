"""Damages valid bytes, and makes up others: `python -m tests.fuzz.fuzzer --inputs 1000000 [--seed n]`.

No input may give anything but a value or an error of our tree, take long, or make the process grow.
"""

import random
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from anchorbolt.errors import AnchorboltError
from tests.fuzz import Target
from tests.fuzz.store_targets import STORE_TARGETS
from tests.fuzz.storm_targets import STORM_TARGETS
from tests.fuzz.value_targets import VALUE_TARGETS

TARGETS: tuple[Target, ...] = (*STORE_TARGETS, *VALUE_TARGETS, *STORM_TARGETS)

_SLOW_S = 2.0
_INTERESTING = b'\x00\x01\x7f\x80\xc0\xc1\xc7\xc9\xcf\xdb\xdc\xdd\xde\xdf\xff"[{'


@dataclass(frozen=True)
class Finding:
    """An input that broke the rule."""

    target: str
    data: bytes
    what: str


@dataclass(frozen=True)
class Summary:
    inputs: int
    values: int
    refused: int
    findings: list[Finding]
    grown_mib: float
    slowest_s: float


def fuzz(inputs: int, seed: int, targets: Sequence[Target] = TARGETS) -> Summary:
    chance = random.Random(seed)
    findings: list[Finding] = []
    values = refused = 0
    slowest = 0.0
    before = _peak_mib()
    for number in range(inputs):
        target = targets[number % len(targets)]
        data = _make(chance, target.examples)
        started = time.perf_counter()
        try:
            target.decode(data)
            values += 1
        except AnchorboltError:
            refused += 1
        except Exception as error:
            findings.append(Finding(target.name, data, f"{type(error).__name__}: {error}"))
        took = time.perf_counter() - started
        slowest = max(slowest, took)
        if took > _SLOW_S:
            findings.append(Finding(target.name, data, f"took {took:.1f} s"))
    return Summary(inputs, values, refused, findings, _peak_mib() - before, slowest)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _make(chance: random.Random, examples: Sequence[bytes]) -> bytes:
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(64))
    if chance.random() < 0.02:
        return chance.choice((b"\x91", b"[", b"\xc7\x04\x01", b'{"a":')) * chance.choice((10, 600, 5000, 200_000))
    data = bytearray(chance.choice(examples))
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        chance.choice(_DAMAGES)(chance, data, examples)
    return bytes(data)


def _flip(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice(_INTERESTING)


def _cut(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _leave_out(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.randrange(9)]


def _insert(chance: random.Random, data: bytearray, examples: Sequence[bytes]) -> None:
    other = chance.choice(examples)
    start = chance.randrange(len(other) + 1)
    at = chance.randrange(len(data) + 1)
    data[at:at] = other[start : start + chance.randrange(1, 40)]


def _repeat(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start = chance.randrange(len(data) + 1)
    piece = data[start : start + chance.randrange(1, 30)]
    data[start:start] = piece * chance.randrange(1, 20)


_DAMAGES = (_flip, _set, _cut, _leave_out, _insert, _repeat)


def main(
    inputs: Annotated[int, typer.Option(help="How many inputs.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="What they are made from.")] = 0,
) -> None:
    """Decode damaged bytes, and say what came of it."""
    summary = fuzz(inputs, seed)
    for finding in summary.findings[:20]:
        print(f"{finding.target}: {finding.what}: {finding.data[:200]!r}")
    print(
        f"{summary.inputs} inputs from seed {seed}: {summary.values} values, {summary.refused} refused, "
        f"{len(summary.findings)} wrong; slowest {summary.slowest_s * 1000:.0f} ms, "
        f"grown by {summary.grown_mib:.0f} MiB"
    )
    sys.exit(1 if summary.findings else 0)


if __name__ == "__main__":
    typer.run(main)
