"""Access to all namespaces of a topology. A run commits its namespaces only here: on the driver, or in a commit task.

Each operation runs on many namespaces at once, and waits a limited time for a store that does not answer.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from anchorbolt.checkpoint.custom_state import commit_custom, roll_back_custom
from anchorbolt.checkpoint.decision import Winner
from anchorbolt.checkpoint.ports import CommitTasks, TaskKey
from anchorbolt.faults.points import FaultPoint, at_task, reach
from anchorbolt.state_backends.contract import Fence, NamespaceHead, StateProvider, StateStorage
from anchorbolt.state_backends.state import State
from anchorbolt.util.retry import RetryPolicy

T = TypeVar("T")

_log = logging.getLogger("anchorbolt.checkpoint")

THREADS = 8
"""The number of namespaces that the driver handles at a time."""


class Namespaces:
    """Opens, fences, commits and rolls back the namespaces of a topology, each on one thread at a time."""

    def __init__(
        self,
        provider: StateProvider,
        retry: RetryPolicy,
        new_state: Callable[[TaskKey], State | None],  # the custom state of a task, if it has one
        tasks: Mapping[str, TaskKey],  # by namespace; for the points of `anchorbolt.faults`
        commit_tasks: CommitTasks | None = None,  # commits the namespaces without a custom state; None: commit here
        threads: int = THREADS,
    ) -> None:
        self._provider = provider
        self._retry = retry
        self._new_state = new_state
        self._tasks = tasks
        self._commit_tasks = commit_tasks
        self._custom: dict[str, State] = {}
        self._storages: dict[str, StateStorage] = {}
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="anchorbolt-commit")

    def open(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._storages:
                state = self._new_state(self._tasks[name]) if name in self._tasks else None
                if state is not None:
                    self._custom[name] = state
                self._storages[name] = self._provider.open(name)

    def is_custom(self, name: str) -> bool:
        """Return whether the namespace belongs to a state of a user's own class."""
        return name in self._custom

    def heads(self) -> dict[str, NamespaceHead]:
        return self._on_each(self._storages, lambda _, storage: storage.head())

    def count(self, names: Iterable[str]) -> int | None:
        """Return how many entries are committed in these namespaces; None if the store cannot tell at once."""
        counts = self._on_each({name: self._storages[name] for name in names}, lambda _, storage: storage.count())
        known = [count for count in counts.values() if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def raise_fence(self, fence: Fence) -> dict[str, NamespaceHead]:
        """Raise the fence of all open namespaces, then read their heads."""
        return self._on_each(self._storages, lambda _, storage: storage.raise_fence(fence))

    def roll_back(self, fence: Fence, names: Iterable[str] | None = None) -> None:
        """Raise the fence of these namespaces, or of all, and drop the staged updates there."""
        chosen = self._storages if names is None else {name: self._storages[name] for name in names}

        def roll_back(name: str, storage: StateStorage) -> None:
            custom = self._custom.get(name)
            if custom is None:
                storage.rollback(fence)
            else:
                roll_back_custom(custom, storage, fence)

        self._on_each(chosen, roll_back)

    def commit(self, fence: Fence, txid: int, winners: Mapping[str, Winner]) -> None:
        here = winners
        if self._commit_tasks is not None:
            here = {name: winner for name, winner in winners.items() if name in self._custom}
            others = {name: winner for name, winner in winners.items() if name not in here}
            if others:
                self._commit_tasks.commit(fence, txid, others)
        chosen = {name: self._storages[name] for name in here}

        def commit(name: str, storage: StateStorage) -> None:
            custom = self._custom.get(name)
            if custom is None:
                storage.commit(fence, txid, winners[name].attempt)
            else:
                commit_custom(custom, storage, fence, txid, winners[name].attempt)
            reach(FaultPoint.NAMESPACE_COMMITTED, txid=txid)

        self._on_each(chosen, commit)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        for name, custom in self._custom.items():
            try:
                custom.close()
            except Exception as error:
                _log.warning("closing the custom state %s: %s", name, error)
        for storage in self._storages.values():
            storage.close()

    def _on_each(self, storages: Mapping[str, StateStorage], act: Callable[[str, StateStorage], T]) -> dict[str, T]:
        def with_retries(name: str, storage: StateStorage) -> tuple[str, T]:
            at_task(*self._tasks.get(name, ("", -1)), txid=-1)  # fault points inside `act` pass their own txid
            return name, self._retry.until_available(lambda: act(name, storage))

        if len(storages) <= 1:
            return dict(with_retries(name, storage) for name, storage in storages.items())
        return dict(self._threads.map(with_retries, storages, storages.values()))
