"""Simulations by seed: one seed decides the input, the order of all steps, and every fault.

    python -m tests.simulation.simulate --first 0 --seeds 10000      # on all cores; prints what fails, shrunk
    python -m tests.simulation.simulate --replay 4711                # one seed, with its trace

Every fourth seed has a reliable spout, alone or beside the stream spout. Another fourth has a transactional topology.
In a fourth of all, 32 in a row, the tasks run in workers that stay; half of the reliable spouts of these, too.
The seeds from 655360 to 917503 have a bolt with timers, TTLs and event time, and a clock that now and then goes back.

A seed that fails replays to the same failure, and shrinks to the few faults that it needs.
"""

import gc
import logging
import random
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from os import cpu_count
from types import SimpleNamespace
from typing import Annotated, Any
from unittest import mock

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track

from anchorbolt.bolts import sink
from anchorbolt.checkpoint import coordinator, losses, namespaces
from anchorbolt.engine.driver import parts_of_run
from anchorbolt.engine.sources import hosted_spout
from anchorbolt.engine.task import bolt_task, spout_task
from anchorbolt.faults.points import observe
from anchorbolt.util.retry import RetryPolicy
from tests.simulation import topology
from tests.simulation.choices import Choices
from tests.simulation.drivers import drive
from tests.simulation.hosts import in_one_thread
from tests.simulation.scenarios import scenario_of
from tests.simulation.transactional.drivers import batches_in_one_thread, drive_batches
from tests.simulation.transactional.world import BatchWorld
from tests.simulation.violation import Violation
from tests.simulation.world import World

_SHRINK_S = 20.0


@dataclass
class Outcome:
    """What came of a simulation."""

    seed: int
    failure: str = ""
    choices: list[int] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


def run_seed(seed: int, *, traced: bool = False) -> Outcome:
    """Run the simulation of a seed."""
    return _run(seed, Choices(seed), traced=traced)


def run_choices(choices: Sequence[int], *, traced: bool = False) -> Outcome:
    """Run the simulation in which these choices are made."""
    return _run(-1, Choices(0, choices), traced=traced)


def _run(seed: int, choices: Choices, *, traced: bool) -> Outcome:
    with _in_one_thread(_world(choices, traced=traced)) as world:
        try:
            world.run()
            failure = ""
        except Violation as violation:
            failure = str(violation)
            if violation.__cause__ is not None:
                failure += f" ({violation.__cause__})"
    return Outcome(seed, failure, choices.made, world.trace or [])


def _world(choices: Choices, *, traced: bool) -> World:
    scenario = scenario_of(choices)
    if scenario.is_transactional:
        return BatchWorld(choices, drive_batches, scenario, traced=traced)
    return World(choices, drive, scenario, traced=traced)


def shrink(choices: Sequence[int], deadline_s: float = _SHRINK_S) -> list[int]:
    """Return simpler choices that still break an invariant: as many zeros, and as few choices, as can be found."""
    best = list(choices)
    deadline = time.monotonic() + deadline_s
    size = max(1, len(best) // 2)
    while time.monotonic() < deadline:
        before = list(best)
        for start in range(0, len(best), size):
            if not any(best[start : start + size]):
                continue
            tried = [*best[:start], *[0] * len(best[start : start + size]), *best[start + size :]]
            outcome = run_choices(tried)
            if outcome.failure:
                best = outcome.choices
            if time.monotonic() > deadline:
                break
        if size > 1:
            size //= 2
        elif best == before:
            break
    while best and best[-1] == 0:
        best.pop()
    return best


def run_seeds(first: int, seeds: int) -> list[Outcome]:
    """Run many seeds on all cores; return those that fail."""
    workers = cpu_count() or 1
    chunk = max(1, min(250, seeds // (4 * workers)))
    starts = range(first, first + seeds, chunk)
    with ProcessPoolExecutor(workers) as pool:
        found = pool.map(failures_among, starts, [min(chunk, first + seeds - start) for start in starts])
        shown = track(found, "simulating", total=len(starts), console=Console(stderr=True))
        return [outcome for outcomes in shown for outcome in outcomes]


def failures_among(first: int, seeds: int) -> list[Outcome]:
    """Run many seeds one after the other; return those that fail."""
    logging.getLogger("anchorbolt").setLevel(logging.CRITICAL)  # every fault would be a warning
    with _garbage_collected_rarely():
        return [outcome for seed in range(first, first + seeds) if (outcome := run_seed(seed)).failure]


@contextmanager
def _garbage_collected_rarely() -> Iterator[None]:
    """By default looking for garbage takes a sixth of a simulation's time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(200_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@contextmanager
def _in_one_thread(world: World) -> Iterator[World]:
    """Have the tested code use the world's files, order and clock, and ids that replay."""
    ids = random.Random(7)

    def call_in_any_order(function: Any, *lists: Any) -> list[Any]:
        """Do what a pool's threads do, one after the other in an order of the world's choosing."""
        calls = list(zip(*lists, strict=False))
        results: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        waiting = list(range(len(calls)))
        while waiting:
            number = waiting.pop(world.choices.pick(len(waiting)))
            try:
                results[number] = function(*calls[number])
            except Exception as error:
                failures[number] = error
        if failures:
            raise failures[min(failures)]
        return [results[number] for number in range(len(calls))]

    pool = SimpleNamespace(map=call_in_any_order, shutdown=lambda **_: None)
    numbered = SimpleNamespace(uuid4=lambda: uuid.UUID(int=ids.getrandbits(128)))
    topology.restart_marks()
    batches = batches_in_one_thread(world, numbered) if isinstance(world, BatchWorld) else nullcontext()
    observer = observe(world.at)
    try:
        with (
            mock.patch.object(namespaces, "ThreadPoolExecutor", return_value=pool),
            mock.patch.object(bolt_task, "uuid", numbered),
            mock.patch.object(spout_task, "uuid", numbered),
            mock.patch.object(coordinator, "sleep", side_effect=lambda _: world.step("waits")),
            mock.patch.object(losses, "sleep", side_effect=lambda _: _wait_after_a_loss(world)),
            mock.patch.object(
                parts_of_run, "RetryPolicy", return_value=RetryPolicy(0)
            ),  # no driver waits for the store
            mock.patch.object(hosted_spout, "time", SimpleNamespace(monotonic=world.clock)),
            mock.patch.object(spout_task, "_FIRST_CAPACITY", 2),
            mock.patch.object(sink, "ThreadPoolExecutor", return_value=pool),
            # Files that only the invariants read: Parquet would be a quarter of a simulation's time.
            mock.patch("pyarrow.parquet.ParquetWriter", pa.ipc.new_stream),
            batches,
            in_one_thread(world),
        ):
            yield world
    finally:
        observe(observer)


def _wait_after_a_loss(world: World) -> None:
    if world.scenario.loses_executors:
        world.step("waits after a loss")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    seeds: Annotated[int, typer.Option(help="How many.")] = 1000,
    replay: Annotated[int | None, typer.Option(help="Run only this seed, and show its steps.")] = None,
) -> None:
    """Simulate the protocol under faults, and shrink what fails."""
    started = time.monotonic()
    failed = [run_seed(replay, traced=True)] if replay is not None else run_seeds(first, seeds)
    if replay is not None:
        print("\n".join(failed[0].trace))
        failed = [outcome for outcome in failed if outcome.failure]
    for outcome in failed[:5]:
        print(f"\nseed {outcome.seed}: {outcome.failure}")
        shrunk = run_choices(shrink(outcome.choices), traced=True)
        print(f"shrunk: {shrunk.failure}\nchoices {shrunk.choices}")
        print("\n".join(shrunk.trace))
    number = 1 if replay is not None else seeds
    print(f"{number} seeds from {first}, {len(failed)} failed, {time.monotonic() - started:.1f} s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    app()
