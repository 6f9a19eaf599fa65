"""The age of the oldest open tree, compared with a model that keeps every tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.acker import tree_ages
from anchorbolt.acker.tree_ages import TreeAges
from anchorbolt.streams.ids import ids_of, mix, numbers_of

NUMBERS = st.integers(0, (1 << 64) - 1)


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_an_id_tells_its_number(numbers: list[int]) -> None:
    given = np.array(numbers, np.uint64)
    assert numbers_of(mix(given)).tolist() == numbers


@given(
    base=st.integers(1, (1 << 64) - 1000),
    waves=st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 200), max_size=8)), max_size=12),
)
def test_the_oldest_open_tree_is_that_of_a_model(base: int, waves: list[tuple[int, list[int]]]) -> None:
    ages, model, of_nobody = TreeAges(), dict[int, float](), ids_of(1 << 50, 3).tolist()
    for since, (opened, closed) in enumerate(waves):
        roots = ids_of(base, opened + 3).tolist()
        ages.add(base, opened + 3, float(since), opened)
        model.update(dict.fromkeys(roots[:opened], float(since)))
        base += opened + 3
        gone = {list(model)[place % len(model)] for place in closed if model}
        ages.remove(np.array([*gone, *of_nobody], np.uint64))
        for root in gone:
            del model[root]
        assert ages.oldest_since == min(model.values(), default=None)


def test_the_numbers_may_begin_again() -> None:
    ages = TreeAges()
    ages.add((1 << 64) - 10, 10, 1.0, 2)
    ages.add(1, 10, 2.0, 2)
    ages.remove(ids_of((1 << 64) - 10, 2))
    assert ages.oldest_since == 2.0
    ages.remove(ids_of(1, 2))
    assert ages.oldest_since is None


def test_a_tree_that_stays_open_in_every_wave_costs_little_memory() -> None:
    ages, waves = TreeAges(), 5000
    for wave in range(waves):
        ages.add(1 + 10 * wave, 10, float(wave), 1)
    assert len(ages._blocks) <= tree_ages._MOST_BLOCKS
    ages.remove(np.concatenate([ids_of(1 + 10 * wave, 1) for wave in range(waves - 1)]))
    assert ages.oldest_since is not None
    assert ages.oldest_since > waves - 100
    ages.remove(ids_of(1 + 10 * (waves - 1), 1))
    assert ages.oldest_since is None
