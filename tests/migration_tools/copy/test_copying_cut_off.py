"""A copy of state that was killed, cut off half applied, or overtaken by another one."""

from contextlib import closing
from dataclasses import replace

import pytest

from anchorbolt.errors import Fenced, StateRegressed
from anchorbolt.faults.points import FaultPoint
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.copy import copy_namespace
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing.conformance.base import entries
from tests.migration_tools.conftest import Killed, killed_at, put
from tests.migration_tools.copy.conftest import SERVERS, Job


class _KillAfter(Progress):
    """Kills the copy when so many calls of its progress have been made."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def begin(self, what: str, total: int | None) -> None:
        self.advance(0)

    def advance(self, entries: int) -> None:
        self.calls -= 1
        if self.calls == 0:
            raise Killed


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_copy_that_is_killed_anywhere_is_finished_by_a_second_one(job: Job, store: StateProvider) -> None:
    job = replace(job, target=store)
    for calls in range(1, 100):
        try:
            job.copy(progress=_KillAfter(calls))
        except Killed:
            assert job.read(store).stored is None
        else:
            break
    assert calls > 3
    assert job.is_copied()


@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_a_commit_that_is_cut_off_half_applied_is_finished_by_a_second_copy(
    memory_provider: MemoryStateProvider, store: StateProvider
) -> None:
    items = {b"%d" % number: b"v" for number in range(10_000)}
    name = put(memory_provider, list(items.items()))
    with killed_at(FaultPoint.SLICE_APPLIED, 0):
        copy_namespace(memory_provider, store, name)
    with closing(store.open(name)) as target:
        assert target.head().committed == -1
    [copied] = copy_namespace(memory_provider, store, name).namespaces
    assert (copied.entries, copied.was_there) == (10_000, False)
    with closing(store.open(name)) as target:
        assert entries(target) == items


def test_a_run_on_half_a_copy_is_refused(job: Job) -> None:
    with pytest.raises(Killed):
        job.copy(progress=_KillAfter(6))
    assert any(head.committed >= 0 for head in job.read(job.target).heads.values())
    with pytest.raises(StateRegressed):
        job.run(job.target)


def test_a_copy_that_was_overtaken_by_another_is_fenced_off(job: Job) -> None:
    class Overtaken(Progress):
        begun = False

        def begin(self, what: str, total: int | None) -> None:
            if not self.begun:
                self.begun = True
                job.copy()

    with pytest.raises(Fenced):
        job.copy(progress=Overtaken())
    assert job.is_copied()
