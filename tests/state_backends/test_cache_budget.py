"""The caches of one process stay within its budget, and each keeps a fair part of it."""

import uuid

from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.state_backends.state import AttemptScope

FIRST = AttemptScope(Fence(1, 1), 0, "a" * 32, -1, "")


class Waves:
    """Tasks of one process, each with its namespace, that run one after the other in every wave."""

    def __init__(self, tasks: int, keys: int, most_entries: int) -> None:
        self.keys = keys
        self.budget = CacheBudget(most_entries)
        provider = MemoryStateProvider()
        self.states = [
            KeyValueState[int, int](provider.open(f"t:b-{task}"), cache_entries=most_entries, budget=self.budget)
            for task in range(tasks)
        ]
        self._positions = [(-1, "")] * tasks
        self._seq = 0
        self.run()

    def run(self, *tasks: int) -> list[int]:
        """Run a wave of these tasks, all by default; return how many keys each has read from the store."""
        self._seq += 1
        self.budget.begin_round()
        read = []
        for task in tasks or range(len(self.states)):
            state, position = self.states[task], self._positions[task]
            attempt = uuid.uuid4().hex
            state.begin(AttemptScope(Fence(1, self._seq), position[0] + 1, attempt, *position))
            state.prefetch(range(self.keys))
            for key in range(self.keys):
                state[key] = state.get(key, 0) + 1
            state.commit()
            self._positions[task] = position[0] + 1, attempt
            read.append(state.counters.keys_read)
        return read

    @property
    def cached(self) -> list[int]:
        return [state.evict(0)[0] for state in self.states]


def test_all_states_of_a_process_together_keep_no_more_than_one_budget() -> None:
    waves = Waves(tasks=16, keys=100, most_entries=400)
    for _ in range(3):
        waves.run()
        assert sum(waves.cached) == waves.budget.entries <= 400
    assert [dict(state.items()) for state in waves.states] == [dict.fromkeys(range(100), 4)] * 16


def test_what_fits_is_read_from_the_store_once() -> None:
    waves = Waves(tasks=4, keys=100, most_entries=400)
    assert waves.run() == [0, 0, 0, 0]


def test_tasks_that_take_turns_keep_their_shares_of_a_budget_that_is_too_small() -> None:
    waves = Waves(tasks=4, keys=100, most_entries=300)
    for _ in range(5):
        read = waves.run()
    assert sum(read) <= 200, "half of what is needed was not in the caches"


def test_the_namespaces_that_were_used_least_recently_give_up_their_entries_first() -> None:
    waves = Waves(tasks=4, keys=100, most_entries=400)
    for _ in range(2):
        waves.run(2, 3)
    waves.keys = 180
    waves.run(2, 3)
    assert waves.cached[2:] == [180, 180]
    assert sum(waves.cached[:2]) <= 40


def test_large_values_are_bounded_for_the_process_and_not_for_each_state() -> None:
    budget = CacheBudget(1000, most_bytes=100_000)
    provider = MemoryStateProvider()
    states = [KeyValueState[int, bytes](provider.open(f"t:b-{task}"), budget=budget) for task in range(5)]
    for state in states:
        state.begin(FIRST)
        for key in range(6):
            state[key] = b"x" * 10_000
        state.commit()
        assert budget.size <= 100_000
    assert sum(state.evict(0)[0] for state in states) <= 10


def test_large_values_are_counted_once_when_they_are_put_again_and_when_entries_make_room() -> None:
    budget = CacheBudget(10)
    state = KeyValueState[int, bytes](MemoryStateProvider().open("t:b-0"), budget=budget)
    state.begin(FIRST)
    for _ in range(3):
        for key in range(8):
            state[key] = b"x" * 10_000
    state.commit()
    assert 80_000 <= budget.size < 81_000
    wanted = {*range(8), 100, 101, 102}
    state.begin(AttemptScope(Fence(1, 2), 1, "b" * 32, 0, "a" * 32))
    state.prefetch(wanted)
    assert 80_000 <= budget.size < 81_000
    assert [len(state[key]) for key in range(8)] == [10_000] * 8
    assert state.counters.keys_read == 3, "the others were in the cache"


def test_a_state_that_gives_up_entries_keeps_updates_that_were_never_staged() -> None:
    budget = CacheBudget(10)
    provider = MemoryStateProvider()
    failed = KeyValueState[str, int](provider.open("t:b-0"), budget=budget)
    failed.begin(FIRST)
    failed.prefetch(["a", "b", "c"])
    failed["a"] = 7
    for _ in range(2):
        budget.begin_round()
    other = KeyValueState[int, int](provider.open("t:b-1"), budget=budget)
    other.begin(FIRST)
    other.put_many((key, key) for key in range(10))
    other.commit()
    assert budget.entries == 10, "those of the other one"
    assert failed["a"] == 7
    assert failed.get("b") is None


def test_a_state_that_is_closed_leaves_the_budget_to_the_others() -> None:
    waves = Waves(tasks=2, keys=100, most_entries=200)
    waves.states[0].close()
    assert waves.budget.entries == 100
