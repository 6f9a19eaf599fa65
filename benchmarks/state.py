"""The cost of a wave's state on each backend, compared with the raw client library on the same data in the same run.

    make bench-state                                     # every provider
    make bench-state OPTIONS="--provider redis-cluster"

A round writes 100,000 keys, half of them new, and reads 100,000 keys. Anchorbolt stages them in slices, seals and
commits them, and reads in batches, as a task and the driver do. The raw client library writes the same items once and
reads them, in its fastest way. Rounds take turns on one server. The table shows medians; the ratio is the median of the
rounds' ratios.
"""

import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.config.loading import load_conf
from anchorbolt.state_backends.attempt import TaskNamespace
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, StateProvider
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.state_backends.state import AttemptScope
from benchmarks.raw_clients import RawClient, raw_client
from tests.support.stores import PROVIDERS, config_of, settings_of, store_of

_KEYS = 100_000
_READ_BATCH = 10_000
_CODEC = "bench/1"
Items = list[tuple[bytes, bytes]]


def main(
    provider: Annotated[list[str] | None, typer.Option(help="Only these providers.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds count; one more is for warming up.")] = 7,
) -> None:
    """Measure seconds for 100,000 keys, staged and committed, and read."""
    console = Console()
    table = Table(title=f"{_KEYS:,} keys, seconds: Anchorbolt, the raw client library, and the ratio")
    for column in ("provider", "written", "raw", "ratio", "read", "raw", "ratio"):
        table.add_column(column, justify="right")
    for name in provider or PROVIDERS:
        with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(name, Path(home)) as store:
            conf = load_conf(settings_of(store))
            ours = provider_from(conf.settings, shared_by_processes=True, shared_by_machines=False)
            with closing(raw_client(name, config_of(store))) as raw:
                table.add_row(name, *_measured(ours, raw, rounds))
    console.print(table)


def _measured(provider: StateProvider, raw: RawClient, rounds: int) -> Iterator[str]:
    times: dict[str, list[float]] = {"written": [], "raw written": [], "read": [], "raw read": []}
    with closing(provider.open(f"bench:{uuid.uuid4().hex}-0")) as storage:
        fence = storage.claim()
        state = TaskNamespace(storage, _CODEC)
        committed, winner = NOTHING_COMMITTED, ""
        for number in range(rounds + 1):
            items = _items(number)
            keys, values = [key for key, _ in items], [value for _, value in items]  # as the two sides take them
            attempt = uuid.uuid4().hex

            def write(
                txid: int = number,
                attempt: str = attempt,
                base: int = committed,
                last: str = winner,
                keys: Sequence[bytes] = keys,
                values: Sequence[bytes] = values,
            ) -> None:
                state.begin(AttemptScope(fence, txid, attempt, base, last))
                state.stage(keys, values)
                state.seal_staged(txid)
                state.commit(txid)

            def read(keys: Sequence[bytes] = keys) -> list[bytes | None]:
                return [value for part in _parts(keys) for value in state.read(part)]

            def raw_read(keys: Sequence[bytes] = keys) -> list[bytes | None]:
                return [value for part in _parts(keys) for value in raw.read(part)]

            measured = {"written": _timed(write)[0]}
            measured["raw written"] = _timed(lambda items=items: raw.write(items))[0]
            committed, winner = number, attempt
            state.begin(AttemptScope(fence, number + 1, uuid.uuid4().hex, committed, winner))
            measured["read"], found = _timed(read)
            measured["raw read"], raw_found = _timed(raw_read)
            if not found == raw_found == values:
                sys.exit(f"{provider.describe()} did not give back what was written")
            if number:
                for what, seconds in measured.items():
                    times[what].append(seconds)
    for what in ("written", "read"):
        yield f"{statistics.median(times[what]):.3f}"
        yield f"{statistics.median(times[f'raw {what}']):.3f}"
        yield f"{statistics.median(a / b for a, b in zip(times[what], times[f'raw {what}'], strict=True)):.2f}"


def _items(number: int) -> Items:
    """Return a round's keys, shuffled; half of them are also keys of the round before."""
    choose = random.Random(number)
    first = number * _KEYS // 2
    items = [(b"key-%08d" % key, choose.randbytes(16)) for key in range(first, first + _KEYS)]
    choose.shuffle(items)
    return items


def _parts(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _READ_BATCH):
        yield keys[start : start + _READ_BATCH]


def _timed(work: Callable[[], list[bytes | None] | None]) -> tuple[float, list[bytes | None]]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found or []


if __name__ == "__main__":
    typer.run(main)
