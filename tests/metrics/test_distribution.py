"""Distributions: what is counted, added up, and read as quantiles."""

from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.metrics.distribution import Distribution

VALUES = st.lists(st.floats(min_value=0, max_value=1e9), max_size=60)


def of(values: list[float]) -> Distribution:
    distribution = Distribution()
    for value in values:
        distribution.add(value)
    return distribution


@given(VALUES.filter(bool), st.floats(min_value=0.01, max_value=1))
def test_a_quantile_is_at_most_a_fifth_above_the_exact_one(values: list[float], share: float) -> None:
    ordered = sorted(values)
    exact = next(value for number, value in enumerate(ordered, 1) if number >= share * len(ordered) - 1e-9)
    found = of(values).quantile(share)
    assert exact <= found * (1 + 1e-9) + 1e-12
    assert found <= max(exact * 1.2, 1e-11)


@given(VALUES, VALUES)
def test_what_is_merged_is_as_if_counted_in_one(first: list[float], second: list[float]) -> None:
    merged = of(first)
    merged.merge(of(second))
    whole = of(first + second)
    assert (merged.buckets, merged.zeros, merged.count) == (whole.buckets, whole.zeros, len(first) + len(second))
    assert abs(merged.total - sum(first) - sum(second)) <= 1e-9 * merged.total


def test_nothing_has_a_quantile_of_zero_and_no_limits() -> None:
    assert Distribution().quantile(0.99) == 0
    assert list(Distribution().limits()) == []


def test_its_size_is_bounded() -> None:
    distribution = Distribution()
    for power in range(-2000, 2000):
        distribution.add(2.0 ** (power / 2))
    assert len(distribution.buckets) <= 321
    assert distribution.count == 4000
