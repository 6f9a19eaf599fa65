"""What a TTL costs: waves that refresh some keys of a large namespace, beside the same without a TTL, in turn.

    make bench-expiry OPTIONS="--provider sqlite --keys 1000000"

Two namespaces are filled with the same keys, one of them with a TTL. Each measured wave reads and puts random keys of
one namespace through `KeyValueState`, as a counter does. Then the clock moves, and all keys of one namespace expire:
the sweeps are measured beside waves that read and delete as many keys of the other one.
"""

import random
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorbolt.config.loading import load_conf
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import NOTHING_COMMITTED, StateStorage
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.state_backends.state import AttemptScope
from tests.support.stores import PROVIDERS, settings_of, store_of

_FILLED_BY = 100_000
_TTL_MS = 3_600_000
_WAVE_MS = 100  # of the clock


class Waves:
    """One namespace, wave by wave."""

    def __init__(self, storage: StateStorage, ttl_ms: int | None) -> None:
        self._state: KeyValueState[Any, Any] = KeyValueState(storage, ttl_ms=ttl_ms)
        self._has_expiring = ttl_ms is not None
        self._fence = storage.claim()
        self._txid, self._winner = NOTHING_COMMITTED, ""
        self.clock = 1_000_000

    def wave(self, *, read: list[str] = (), put: list[str] = (), delete: list[str] = ()) -> float:  # type: ignore[assignment]
        """Take a wave; return its ms."""
        state, attempt, txid = self._state, uuid.uuid4().hex, self._txid + 1
        self.clock += _WAVE_MS
        scope = AttemptScope(self._fence, txid, attempt, self._txid, self._winner, self.clock, None, self._has_expiring)
        started = time.perf_counter()
        state.begin(scope)
        if read:
            state.prefetch(read)
        for key in put:
            state.put(key, state.get(key, 0) + 1 if read else 1)
        if delete:
            state.delete_array(delete)
        state.prepare_commit(txid)
        if state.seal is not None:
            state.commit(txid)
            self._txid, self._winner = txid, attempt
        return (time.perf_counter() - started) * 1000

    @property
    def swept(self) -> int:
        return self._state.timed.swept


def main(
    provider: Annotated[str, typer.Option(help=f"One of {', '.join(PROVIDERS)}.")] = "redis",
    keys: Annotated[int, typer.Option(min=_FILLED_BY, help="Keys of each namespace.")] = 1_000_000,
    wave: Annotated[int, typer.Option(min=1, max=_FILLED_BY, help="Keys of a measured wave.")] = 10_000,
    waves: Annotated[int, typer.Option(min=1, help="Measured waves of each kind.")] = 30,
) -> None:
    """Measure waves with a TTL beside waves without."""
    table = Table(title=f"{provider}, {keys:,} keys: ms, median")
    for column in ("", "with a TTL", "without", "ratio"):
        table.add_column(column, justify="right")
    with tempfile.TemporaryDirectory(prefix="anchorbolt-bench-") as home, store_of(provider, Path(home)) as server:
        conf = load_conf(settings_of(server))
        store = provider_from(conf.settings, shared_by_processes=True, shared_by_machines=False)
        name = uuid.uuid4().hex
        with closing(store.open(f"bench:{name}-0")) as one, closing(store.open(f"bench:{name}-1")) as other:
            sides = Waves(one, _TTL_MS), Waves(other, None)
            filled: list[list[float]] = [[], []]
            for start in range(0, keys, _FILLED_BY):
                for side, times in zip(sides, filled, strict=True):
                    times.append(side.wave(put=_names(range(start, start + _FILLED_BY))))
            _add(table, f"put {_FILLED_BY:,} new keys", filled)
            chosen: list[list[float]] = [[], []]
            for number in range(waves):
                some = random.sample(range(keys), wave)
                for side, times in list(zip(sides, chosen, strict=True))[:: 1 if number % 2 else -1]:  # in turn
                    names = _names(some)
                    times.append(side.wave(read=names, put=names))
            _add(table, f"read and put {wave:,} keys", chosen)
            sides[0].clock += 2 * _TTL_MS
            swept: list[list[float]] = [[], []]
            for start in range(0, keys, _FILLED_BY):
                swept[0].append(sides[0].wave())
                swept[1].append(sides[1].wave(delete=_names(range(start, start + _FILLED_BY))))
            _add(table, f"sweep, or delete, {_FILLED_BY:,} keys", swept)
    Console().print(table)


def _names(numbers: Iterable[int]) -> list[str]:
    """Return keys as the tuples of a wave have them: new objects, which lie side by side in memory."""
    return [f"key-{number:08d}" for number in numbers]


def _add(table: Table, what: str, times: list[list[float]]) -> None:
    one, other = map(statistics.median, times)
    table.add_row(what, f"{one:.1f}", f"{other:.1f}", f"{one / other:.2f}")
    Console(stderr=True).print(what, f"{one:.1f} {other:.1f} {one / other:.2f}")


if __name__ == "__main__":
    typer.run(main)
