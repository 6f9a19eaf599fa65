"""What a component registers, and what a round measured."""

import pickle

import pytest

from anchorbolt.errors import TopologyError
from anchorbolt.metrics.registry import MetricRegistry
from anchorbolt.streams import TopologyContext


def test_each_kind_is_taken_once() -> None:
    context = TopologyContext("t", "bolt", 1, 0)
    counter, gauge = context.register_counter("seen"), context.register_gauge("open.files")
    histogram, timer = context.register_histogram("sizes"), context.register_timer("asking-others")
    assert context.metrics.take() == {}
    counter.inc()
    counter.inc(2)
    gauge.set(7)
    histogram.update(3)
    with pytest.raises(ValueError, match="x"), timer.time():
        raise ValueError("x")
    taken = pickle.loads(pickle.dumps(context.metrics.take()))  # noqa: S301 - made here
    assert taken["seen"] == ("counter", 3)
    assert taken["open.files"] == ("gauge", 7)
    assert [(name, taken[name][0], taken[name][1].count) for name in ("sizes", "asking-others")] == [
        ("sizes", "histogram", 1),
        ("asking-others", "timer", 1),
    ]
    assert context.metrics.take() == {"open.files": ("gauge", 7)}, "a gauge keeps its value"


def test_a_name_gives_one_metric() -> None:
    registry = MetricRegistry()
    assert registry.counter("seen") is registry.counter("seen")
    with pytest.raises(TopologyError):
        registry.gauge("seen")


@pytest.mark.parametrize("name", ["", "7", "a b", "ä", "a" * 101, "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(TopologyError):
        MetricRegistry().counter(name)


def test_a_metric_for_each_tuple_is_refused() -> None:
    registry = MetricRegistry()
    for number in range(100):
        registry.counter(f"word_{number}")
    with pytest.raises(TopologyError):
        registry.histogram("word_100")


def test_a_counter_does_not_fall() -> None:
    with pytest.raises(ValueError, match="gauge"):
        MetricRegistry().counter("seen").inc(-1)


def test_a_gauge_whose_function_raises_is_left_out_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    registry = MetricRegistry()
    values = iter([1.5])
    registry.gauge("lag", lambda: next(values))
    registry.counter("seen").inc()
    assert registry.take() == {"lag": ("gauge", 1.5), "seen": ("counter", 1)}
    assert [registry.take(), registry.take()] == [{}, {}]
    assert len(caplog.records) == 1
