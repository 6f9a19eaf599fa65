"""Windows by key equal a computation by brute force, for every order of arrival, wave length and restart."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.errors import BoltError, TopologyError
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.windows import BaseWindowBolt, Session, Sliding, Tumbling
from tests.engine.jobs import Committed

DEADLINE_S = 60
END = 1_000_000  # later than all windows of a test

Row = tuple[str, int, int]
"""A key, an event time, and a number that no other tuple has."""


class Configured:
    """A bolt with the attributes that it is given."""

    def __init__(self, window: Any, **attributes: Any) -> None:
        self.window = window
        for name, value in attributes.items():
            setattr(self, name, value)


class Numbers(Configured, BaseWindowBolt):
    """Collects the numbers of its tuples."""

    event_time = "at"

    def create(self) -> Any:
        return []

    def add(self, value: Any, tup: Any) -> Any:
        value.append(tup["number"])
        return value

    def close(self, key: Any, window: Any, value: Any, collector: Any) -> None:
        collector.emit((key, window.start, window.end, tuple(sorted(value)), window.is_update))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("key", "start", "end", "numbers", "is_update")
        declarer.declare_stream("late", "key", "at", "number")


class Merging(Numbers):
    def merge(self, one: Any, other: Any) -> Any:
        return one + other


def topology(
    bolt: BaseWindowBolt, spout: FeederSpout, results: TupleCapture, late: TupleCapture, tasks: int
) -> Topology:
    builder = TopologyBuilder()
    builder.set_spout("in", spout)
    builder.set_bolt("window", bolt, tasks).fields_grouping("in", "key")
    builder.set_bolt("results", results).global_grouping("window")
    builder.set_bolt("late", late).global_grouping("window", "late")
    return builder.create_topology("windows")


def run(
    bolt: BaseWindowBolt, waves: Iterable[list[Row]], *, seed: int = 0, tasks: int = 2, restarts: int = 0, **conf: Any
) -> tuple[list[Any], list[Any]]:
    """Run waves of these tuples; return the results and the late tuples. `restarts` is the waves between restarts."""
    results, late = TupleCapture(), TupleCapture()
    cluster = LocalCluster(seed=seed, clock=ManualClock())
    batches = list(waves)
    size = restarts or max(1, len(batches))
    for start in range(0, len(batches), size):
        spout = FeederSpout(["key", "at", "number"], batches[start : start + size])
        handle = cluster.submit(topology(bolt, spout, results, late, tasks), conf)
        handle.await_termination(DEADLINE_S)
    return sorted(results.tuples, key=repr), sorted(late.tuples, key=repr)


def spans_of(window: Any, times: Iterable[int]) -> list[tuple[int, int]]:
    """Return the windows that contain one of these times, by definition."""
    ordered = sorted(times)
    if isinstance(window, Session):
        spans: list[tuple[int, int]] = []
        for at in ordered:
            if spans and at < spans[-1][1]:
                spans[-1] = spans[-1][0], at + window.gap_ms
            else:
                spans.append((at, at + window.gap_ms))
        return spans
    if not ordered:
        return []
    length, every = window.length_ms, window.every_ms
    first = (ordered[0] - length) // every * every
    starts = range(first, ordered[-1] + 1, every)
    return [(start, start + length) for start in starts if any(start <= at < start + length for at in ordered)]


def expected(window: Any, rows: Iterable[Row]) -> list[Any]:
    by_key: Mapping[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row[0]].append(row)
    return sorted(
        (key, start, end, tuple(sorted(number for _, at, number in some if start <= at < end)), False)
        for key, some in by_key.items()
        for start, end in spans_of(window, [at for _, at, _ in some])
    )


WINDOWS = st.one_of(
    st.integers(1, 40).map(lambda ms: Tumbling(f"{ms} ms")),
    st.tuples(st.integers(1, 12), st.integers(1, 12)).map(
        lambda each: Sliding(f"{max(each)} ms", every=f"{min(each)} ms")
    ),
    st.integers(1, 15).map(lambda ms: Session(f"{ms} ms")),
)
LAG = 30
TIMES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-50, 200), st.integers(0, LAG)), max_size=40)


@settings(max_examples=120, deadline=None)
@given(
    window=WINDOWS,
    merges=st.booleans(),
    times=TIMES,
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    restarts=st.integers(0, 3),
    seed=st.integers(0, 5),
    tasks=st.integers(1, 3),
    cache=st.sampled_from((0, 2, 200_000)),
)
def test_every_window_equals_a_computation_by_brute_force_in_every_order_within_the_lag(
    window: Any, merges: bool, times: Any, cuts: list[int], restarts: int, seed: int, tasks: int, cache: int
) -> None:
    rows = [(key, at, number) for number, (key, at, _) in enumerate(times)]
    delays = {number: delay for number, (_, _, delay) in enumerate(times)}
    rows.sort(key=lambda row: row[1] + delays[row[2]])  # within the lag
    waves, start, turn = [], 0, 0
    while start < len(rows):
        size = cuts[turn % len(cuts)]
        waves.append(rows[start : start + size])
        start, turn = start + size, turn + 1
    waves.append([("end", END, -1)])
    bolt = (Merging if merges or isinstance(window, Session) else Numbers)(window, lag=f"{LAG} ms")
    conf = {"topology.state.cache.max.entries": cache, "topology.timers.per.wave": 3 if cache == 2 else 100_000}
    results, late = run(bolt, waves, seed=seed, tasks=tasks, restarts=restarts, **conf)
    assert not late
    assert sorted(row for row in results if row[0] != "end") == expected(window, rows)


@settings(max_examples=120, deadline=None)
@given(
    window=WINDOWS,
    merges=st.booleans(),
    times=TIMES,
    size=st.integers(1, 9),
    lag=st.integers(0, 20),
    lateness=st.integers(0, 60),
    seed=st.integers(0, 5),
)
def test_a_late_tuple_within_the_lateness_closes_its_window_again_and_any_other_goes_to_the_late_stream(
    window: Any, merges: bool, times: Any, size: int, lag: int, lateness: int, seed: int
) -> None:
    rows = [(key, at, number) for number, (key, at, _) in enumerate(times)]
    waves = [rows[start : start + size] for start in range(0, len(rows), size)]
    watermark, too_late = None, []
    for wave in waves:
        too_late += [row for row in wave if watermark is not None and row[1] < watermark - lateness]
        latest = max(at for _, at, _ in wave) - lag
        watermark = latest if watermark is None else max(watermark, latest)
    bolt = (Merging if merges or isinstance(window, Session) else Numbers)(
        window, lag=f"{lag} ms", lateness=f"{lateness} ms", late_stream="late"
    )
    results, late = run(bolt, [*waves, [("end", END, -1)]], seed=seed)
    assert sorted(late) == sorted(too_late)
    wanted = {row[:4] for row in expected(window, [row for row in rows if row not in too_late])}
    found = [row for row in results if row[0] != "end"]
    assert wanted <= {row[:4] for row in found}
    if not isinstance(window, Session):  # a session that grows has another start or end
        final = {row[:2]: row[:4] for row in sorted(found, key=lambda row: len(row[3]))}
        assert set(final.values()) == wanted
        assert sorted(row[:2] for row in found if not row[4]) == sorted(final)


EQUAL_KEYS: list[Any] = [1, True, 1.0, Decimal(1), "1", ("a", 1), ("a", True), ("a", 1.0), float("nan"), None, b"1"]


@pytest.mark.parametrize("window", [Tumbling("10 ms"), Sliding("20 ms", every="10 ms"), Session("5 ms")])
def test_keys_that_are_equal_in_a_dict_have_windows_of_their_own(window: Any) -> None:
    rows: list[Any] = [(key, at, number) for number, key in enumerate(EQUAL_KEYS) for at in (1, 2)]
    results, _ = run(Merging(window), [rows, [("end", END, -1)]], tasks=1)
    found = sorted(row[3] for row in results if row[0] != "end")
    each_twice = 2 if isinstance(window, Sliding) else 1
    assert found == sorted((number, number) for number in range(len(EQUAL_KEYS)) for _ in range(each_twice))


def test_a_key_that_no_state_takes_is_an_error_that_names_the_tuple() -> None:
    class Keyed(Numbers):
        def key(self, tup: Any) -> Any:
            return [tup["key"]]

    with pytest.raises(BoltError) as caught:
        run(Keyed(Tumbling("10 ms")), [[("a", 1, 77)]], **{"topology.max.batch.retries": 0})
    assert "77" in str(caught.value.tuple_text)


def test_a_window_is_shown_as_it_is_made() -> None:
    assert repr(Tumbling("1 h")) == "Tumbling('3600000 ms')"
    assert repr(Sliding("9 s", every="3 s")) == "Sliding('9000 ms', every='3000 ms')"
    assert repr(Session(gap="1 s")) == "Session(gap='1000 ms')"


def test_nothing_is_left_in_the_state_when_all_windows_are_over() -> None:
    for window in (Tumbling("10 ms"), Sliding("30 ms", every="10 ms"), Session("10 ms")):
        for lateness in ("0 s", "5 ms"):
            results, cluster = TupleCapture(), LocalCluster(clock=ManualClock())
            rows = [[("a", at, at)] for at in range(0, 100, 7)]
            spout = FeederSpout(["key", "at", "number"], [*rows, [("end", END, -1)]])
            bolt = Merging(window, lateness=lateness)
            handle = cluster.submit(topology(bolt, spout, results, TupleCapture(), 1))
            handle.await_termination(DEADLINE_S)
            assert all("end" in str(key) for key in handle.state("window")), handle.state("window")


def test_windows_by_the_waves_clock() -> None:
    clock, committed, results = ManualClock(), Committed(), TupleCapture()
    bolt = Merging(Tumbling("1 min"), event_time=None)
    spout = FeederSpout(["key", "at", "number"])
    handle = LocalCluster(clock=clock).submit(
        topology(bolt, spout, results, TupleCapture(), 2), until_empty=False, on_wave=committed
    )
    spout.feed([("a", 0, 1), ("b", 0, 2)])
    assert committed.wait_for(1, DEADLINE_S)
    clock.advance(59)
    spout.feed([("a", 0, 3)])
    assert committed.wait_for(2, DEADLINE_S)
    clock.advance(1)
    assert committed.wait_for(3, DEADLINE_S)
    assert handle.stop(DEADLINE_S)
    assert sorted(results.tuples) == [("a", 0, 60_000, (1, 3), False), ("b", 0, 60_000, (2,), False)]


@pytest.mark.parametrize("window", [Tumbling("10 s"), Sliding("10 s", every="5 s"), Session("10 s")])
def test_an_open_window_does_not_expire_with_the_ttl_of_the_topology(window: Any) -> None:
    clock, committed, results = ManualClock(), Committed(), TupleCapture()
    spout = FeederSpout(["key", "at", "number"])
    job = topology(Merging(window), spout, results, TupleCapture(), 1)
    conf = {"topology.state.ttl.secs": 5}
    handle = LocalCluster(clock=clock).submit(job, conf, until_empty=False, on_wave=committed)
    spout.feed([("a", 5000, 1)])
    assert committed.wait_for(1, DEADLINE_S)
    clock.advance(60)
    spout.feed([("a", 60_000, 2)])  # the next wave closes the window
    assert committed.wait_for(3, DEADLINE_S)
    assert handle.stop(DEADLINE_S)
    assert [row[3] for row in sorted(results.tuples)] == [(1,)] * len(spans_of(window, [5000]))


def test_a_run_until_empty_leaves_windows_open_unless_it_is_to_close_them() -> None:
    rows = [("a", 1, 1), ("b", 12, 2), ("a", 25, 3)]
    bolt = Merging(Tumbling("10 ms"))
    assert [row[0] for row in run(bolt, [rows])[0]] == ["a", "b"]
    results, _ = run(bolt, [rows], **{"topology.windows.close.when.empty": True})
    assert results == expected(bolt.window, rows)


class Fails(Merging):
    failures = 0

    def close(self, key: Any, window: Any, value: Any, collector: Any) -> None:
        if Fails.failures < 2:
            Fails.failures += 1
            raise ValueError("twice")
        super().close(key, window, value, collector)


def test_a_window_whose_closing_fails_is_closed_once_in_the_end() -> None:
    Fails.failures = 0
    results, _ = run(Fails(Tumbling("10 ms")), [[("a", 1, 1)], [("a", 50, 2)], [("a", END, 3)]])
    assert [row[:4] for row in results] == [("a", 0, 10, (1,)), ("a", 50, 60, (2,))]


def test_a_wrong_event_time_is_an_error_that_names_the_tuple() -> None:
    with pytest.raises(BoltError) as caught:
        run(Numbers(Tumbling("10 ms")), [[("a", None, 77)]], **{"topology.max.batch.retries": 0})  # type: ignore[list-item]
    assert "77" in str(caught.value.tuple_text)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Numbers(None), "window"),
        (lambda: Numbers(Session("1 s")), "merge"),
        (lambda: Numbers(Tumbling("1 s"), lateness="soon"), "lateness"),
        (lambda: Numbers(Tumbling("1 s"), lateness="1 s", event_time=None), "lateness"),
        (lambda: Numbers(Tumbling("1 s"), late_stream="other"), "late_stream"),
        (lambda: Numbers(Tumbling("0 s")), "length"),
        (lambda: Numbers(Sliding("1 s", every="2 s")), "every"),
        (lambda: Numbers(Session("-1 s")), "gap"),
    ],
)
def test_a_wrong_declaration_is_refused_when_the_topology_is_built(make: Any, named: str) -> None:
    with pytest.raises(TopologyError, match=named):
        topology(make(), FeederSpout(["key", "at", "number"]), TupleCapture(), TupleCapture(), 1)


def test_a_shuffled_input_is_refused_unless_the_bolt_names_its_key() -> None:
    def shuffled(bolt: BaseWindowBolt) -> Topology:
        builder = TopologyBuilder()
        builder.set_spout("in", FeederSpout(["key", "at", "number"]))
        builder.set_bolt("window", bolt).shuffle_grouping("in")
        return builder.create_topology("windows")

    class Keyed(Numbers):
        def key(self, tup: Any) -> Any:
            return tup["key"]

    with pytest.raises(TopologyError, match="fields_grouping"):
        shuffled(Numbers(Tumbling("1 s")))
    shuffled(Keyed(Tumbling("1 s")))
