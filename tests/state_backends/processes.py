"""What the tests run in processes of their own; each function is started by `run` and its result comes back."""

import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

from anchorbolt.errors import Fenced, StaleAttempt, StateError, StateRegressed
from anchorbolt.state_backends.contract import Fence, StateProvider
from anchorbolt.testing.conformance.base import committed, new_attempt, stage, stage_slice, staged

T = TypeVar("T")
SPAWN = multiprocessing.get_context("spawn")
NOBODY = 65534


def run(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a new process, and return or raise what it does."""
    with ProcessPoolExecutor(1, mp_context=SPAWN) as processes:
        return processes.submit(function, *arguments).result()


def exit_code(function: Callable[..., object], *arguments: Any) -> int | None:
    """Call a function in a new process, and return how the process ended: minus the signal, where one killed it."""
    process = SPAWN.Process(target=function, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def together(function: Callable[..., T], processes: int, *arguments: Any) -> list[T]:
    """Call a function in several new processes, which it is to hold at a barrier until all are there."""
    with SPAWN.Manager() as manager:
        barrier = manager.Barrier(processes)
        with ProcessPoolExecutor(processes, mp_context=SPAWN) as pool:
            futures = [pool.submit(function, barrier, *arguments) for _ in range(processes)]
            return [future.result() for future in futures]


def claim_at_once(barrier: Barrier, provider: StateProvider, namespace: str) -> Fence:
    with closing(provider.open(namespace)) as storage:
        barrier.wait()
        return storage.claim()


def count_up(barrier: Barrier, provider: StateProvider, namespace: str, times: int) -> int:
    """Add 1 to a counter, `times` times, as a driver that is fenced by others and claims again; return how often."""
    done = 0
    with closing(provider.open(namespace)) as storage:
        barrier.wait()
        while done < times:
            fence = storage.claim()
            try:
                base = storage.raise_fence(fence).committed
                [before] = storage.get_many([b"counter"])
                after = b"%d" % (int(before or b"0") + 1)
                committed(storage, [(b"counter", after)], fence=fence, txid=base + 1, base=base)
                done += 1
            except (Fenced, StaleAttempt, StateRegressed):
                continue
    return done


def use_before_and_after_a_fork(provider: StateProvider, namespace: str) -> int:
    """Open in a parent, go on in the child and then in the parent; return the child's exit status."""
    storage = provider.open(namespace)
    attempt, _ = stage(storage, [(b"a", b"parent")])
    child = os.fork()
    if child == 0:
        try:
            seal = stage_slice(storage, attempt, 1, {b"b": b"child"}, fence=Fence(1, 0))
            storage.seal(Fence(1, 0), attempt, seal)
            storage.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    storage.commit(Fence(1, 0), 0, attempt)
    storage.close()
    return status


def kill_within_commit(provider: Any, namespace: str, attempt: str, instructions: int) -> None:
    """Commit txid 1, and die by SIGKILL after so many instructions of SQLite's machine."""
    storage = provider.open(namespace)
    storage.claim()
    storage._file._connection.set_progress_handler(lambda: os.kill(os.getpid(), signal.SIGKILL), instructions)
    storage.commit(Fence(2, 0), 1, attempt)


def stage_with_small_files(provider: StateProvider, namespace: str, limit: int, committing: bool) -> StateError:
    """Fill the namespace until a file may not grow any more, and return the error."""
    with closing(provider.open(namespace)) as storage:
        items = [(os.urandom(16), os.urandom(1000)) for _ in range(1000)]
        attempt = staged(storage, items, txid=1, base=0) if committing else new_attempt()
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            if committing:
                storage.commit(Fence(1, 0), 1, attempt)
            else:
                stage_slice(storage, attempt, 0, dict(items), fence=Fence(1, 0), txid=1, base=0)
        except StateError as error:
            return error
    raise AssertionError("there was room enough")


def claim_as_nobody(provider: StateProvider, namespace: str) -> Fence:
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    with closing(provider.open(namespace)) as storage:
        return storage.claim()
