"""Entries that expire and timers of stateful bolts, by a clock that the tests move."""

from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.bolts import BaseArrowBolt, BaseBasicBolt, BaseRichBolt, BaseStatefulBolt
from anchorbolt.bolts.base import Bolt
from anchorbolt.engine import RunHandle
from anchorbolt.errors import BoltError, ConfigError, TopologyError, UnsupportedValue
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.testing.conformance.base import entries
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.transactional import BaseBatchBolt, MemoryTransactionalSpout, TransactionalTopologyBuilder
from anchorbolt.windows import BaseWindowedBolt
from tests.engine.jobs import Committed, chain
from tests.engine.timed.bolts import TimedBolt
from tests.support.stores import settings_of

DEADLINE_S = 30


class Cart(TimedBolt):
    """Keeps what users put into their carts, for a day; a user who adds nothing for 30 minutes has left."""

    fields = ("user", "items", "at")
    state_ttl: Any = "1 d"

    def execute(self, tup: Any) -> None:
        user, item = tup["user"], tup["item"]
        if item == "?":
            self.collector.emit((user, self.state.get(user, []), None), anchors=tup)
        else:
            self.state.put(user, [*self.state.get(user, []), item])
            self.timers.set(user, after=timedelta(minutes=30))
        self.collector.ack(tup)

    def on_timer(self, timer: Any) -> None:
        self.collector.emit((timer.key, self.state.get(timer.key), timer.at_time), anchors=timer)


class Run:
    """A run that the test feeds, wave by wave."""

    def __init__(self, bolt: Any, cluster: LocalCluster, fields: Any = ("user", "item"), **conf: Any) -> None:
        self.spout = FeederSpout(list(fields))
        self.captured = TupleCapture()
        self.committed = Committed()
        self.waves = 0
        topology: Topology = chain("carts", {"in": self.spout, "cart": bolt, "out": self.captured})
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        self.handle: RunHandle = cluster.submit(topology, settings, until_empty=False, on_wave=self.committed)

    def feed(self, *rows: Any) -> None:
        self.spout.feed(list(rows))
        self.wait()

    def wait(self, waves: int = 1) -> None:
        self.waves += waves
        assert self.committed.wait_for(self.waves, DEADLINE_S), self.handle.status

    def stop(self) -> list[tuple[Any, ...]]:
        assert self.handle.stop(DEADLINE_S)
        return self.rows()

    def rows(self) -> list[tuple[Any, ...]]:
        return self.captured.tuples


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc)


def test_a_timer_causes_a_wave_when_it_is_due_and_a_put_after_it_sets_it_again() -> None:
    clock = ManualClock()
    run = Run(Cart(), LocalCluster(clock=clock))
    run.feed(("ann", "tea"), ("bob", "oil"))
    clock.advance(600)
    run.feed(("ann", "jam"))
    clock.advance(1200)
    run.wait()
    assert run.rows() == [("bob", ["oil"], at(1800))]
    clock.advance(599)
    clock.advance(1)
    run.wait()
    assert run.stop()[1:] == [("ann", ["tea", "jam"], at(2400))]
    assert run.committed.txids == [0, 1, 2, 3]


def test_an_entry_is_gone_when_its_ttl_is_over_and_a_put_begins_it_again() -> None:
    clock, cluster = ManualClock(), None
    cluster = LocalCluster(clock=clock)
    run = Run(Cart(), cluster)
    run.feed(("ann", "tea"))
    clock.advance(86_399)
    run.wait()  # the timer
    run.feed(("ann", "?"))
    clock.advance(1)
    run.feed(("ann", "?"))
    assert run.rows()[1:] == [("ann", ["tea"], None), ("ann", [], None)]
    run.feed(("ann", "jam"))
    clock.advance(86_399)
    run.wait()
    run.feed(("ann", "?"))
    assert run.rows()[-1] == ("ann", ["jam"], None)
    assert run.handle.state("cart") == {"ann": ["jam"]}
    clock.advance(100_000)
    run.feed(("bob", "oil"))
    assert run.handle.state("cart") == {"bob": ["oil"]}
    run.stop()


def test_timers_and_ttls_outlive_a_run() -> None:
    clock = ManualClock()
    cluster = LocalCluster(clock=clock)
    first = Run(Cart(), cluster)
    first.feed(("ann", "tea"))
    first.stop()
    clock.advance(1800)
    second = Run(Cart(), cluster)
    second.wait()
    assert second.rows() == [("ann", ["tea"], at(1800))]
    clock.advance(86_400 - 1800)
    second.feed(("ann", "?"))
    assert second.stop()[1:] == [("ann", [], None)]


class Alarms(TimedBolt):
    """Sets timers as its tuples say, and emits those that fire."""

    fields = ("key", "name", "at")
    fails = 0

    def execute(self, tup: Any) -> None:
        key, what = tup["user"], tup["item"]
        if what is None:
            self.timers.cancel(key)
        else:
            self.timers.set(key, **what)
        self.collector.ack(tup)

    def on_timer(self, timer: Any) -> None:
        if timer.key == "fails" and not Alarms.fails:
            Alarms.fails += 1
            raise ValueError("once")
        self.state.add(timer.key, 1)
        self.collector.emit((timer.key, timer.name, timer.at), anchors=timer)
        if timer.key == "again":
            self.timers.set("again", at=0)


def test_timers_fire_in_the_order_of_their_times_and_one_of_a_key_and_a_name_replaces_the_other() -> None:
    clock = ManualClock()
    run = Run(Alarms(), LocalCluster(clock=clock))
    run.feed(
        ("b", {"after": "3 s"}),
        ("a", {"after": "3 s"}),
        ("c", {"after": "2 s"}),
        ("c", {"after": "9 s", "name": "second"}),
        ("d", {"after": "1 s"}),
        ("d", {"at": at(4)}),
        ("e", {"after": "1 s"}),
        ("e", None),
        ("f", {"at": -5}),
    )
    assert run.rows() == [("f", "", -5)]
    clock.advance(5)
    run.wait()
    assert run.rows()[1:] == [("c", "", 2000), ("a", "", 3000), ("b", "", 3000), ("d", "", 4000)]
    clock.advance(4)
    run.wait()
    assert run.stop()[5:] == [("c", "second", 9000)]


def test_at_most_so_many_timers_fire_in_a_wave_the_earliest_first_and_waves_follow_until_none_is_left() -> None:
    clock = ManualClock()
    run = Run(Alarms(), LocalCluster(clock=clock), topology_timers_per_wave=10)
    run.feed(*[(number, {"at": 1000 + number * 37 % 100}) for number in range(35)])
    clock.advance(60)
    run.wait(4)
    times = [row[2] for row in run.stop()]
    assert times == sorted(times)
    assert len(times) == 35
    assert run.committed.txids == [0, 1, 2, 3, 4]


def test_a_timer_set_in_on_timer_that_is_due_fires_in_the_next_wave() -> None:
    run = Run(Alarms(), LocalCluster(clock=ManualClock()))
    run.feed(("again", {"at": 0}))
    run.wait(3)
    rows = run.stop()
    assert len(rows) == len(run.committed.txids)


def test_a_timer_fires_again_if_its_wave_is_rolled_back_and_counts_once() -> None:
    Alarms.fails = 0
    run = Run(Alarms(), LocalCluster(clock=ManualClock()))
    run.feed(("fails", {"at": 0}), ("x", {"at": 0}))
    assert sorted(row[0] for row in run.rows()) == ["fails", "x"]
    assert run.handle.state("cart") == {"fails": 1, "x": 1}
    run.stop()
    assert Alarms.fails == 1


@pytest.mark.parametrize(
    "what",
    [{}, {"after": "1 s", "at": 5}, {"after": "soon"}, {"at": datetime(2026, 1, 1)}, {"at": 1.5}, {"at": 1 << 60},
     {"after": "1 s", "clock": "event"}, {"at": 1, "clock": "event"}, {"at": 1, "clock": "wave"},
     {"after": timedelta(seconds=-1)}, {"at": 1, "name": "x" * 256}],
)  # fmt: skip
def test_a_wrong_time_of_a_timer_is_an_error_that_names_its_key(what: Any) -> None:
    run = Run(Alarms(), LocalCluster(clock=ManualClock()), topology_max_batch_retries=0)
    run.spout.feed([("the key", what)])
    with pytest.raises(BoltError, match="the key") as caught:
        run.handle.await_termination(DEADLINE_S)
    assert UnsupportedValue.__name__ in caught.value.user_traceback


class Puts(Alarms):
    def execute(self, tup: Any) -> None:
        self.state.put(tup["user"], 1, ttl=tup["item"])
        self.collector.ack(tup)


@pytest.mark.parametrize("ttl", ["0 s", timedelta(0), timedelta(-1), "a while", 5])
def test_a_wrong_ttl_is_an_error_that_names_the_key(ttl: Any) -> None:
    run = Run(Puts(), LocalCluster(clock=ManualClock()), topology_max_batch_retries=0)
    run.spout.feed([("the key", ttl)])
    with pytest.raises(BoltError, match="the key"):
        run.handle.await_termination(DEADLINE_S)


def test_the_ttl_of_a_put_comes_before_that_of_the_bolt_and_this_before_that_of_the_topology() -> None:
    def expiring(state_ttl: Any, ttl: Any, setting: Any) -> float | None:
        """Return after how many seconds an entry is gone."""
        clock, bolt = ManualClock(), Puts()
        bolt.state_ttl = state_ttl
        conf = {} if setting is None else {"topology_state_ttl_secs": setting}
        run = Run(bolt, LocalCluster(clock=clock), **conf)
        run.feed(("a", ttl))
        for seconds in range(1, 6):
            clock.advance(1)
            run.feed(("other", "never"))
            if "a" not in run.handle.state("cart"):
                run.stop()
                return seconds
        run.stop()
        return None

    assert expiring("3 s", "2 s", 4) == 2
    assert expiring("3 s", None, 4) == 3
    assert expiring(None, None, 4) == 4
    assert expiring("never", None, 4) is None
    assert expiring("3 s", "never", 4) is None
    assert expiring(None, None, None) is None


def test_a_run_sweeps_entries_that_it_has_never_read(tmp_path: Path) -> None:
    clock = ManualClock()
    cluster = LocalCluster(clock=clock)
    conf = {name.replace(".", "_"): value for name, value in settings_of(tmp_path).items()}
    run = Run(Puts(), cluster, **conf)
    run.feed(("a", "1 s"))
    run.stop()
    clock.advance(60)
    run = Run(Puts(), cluster, **conf)
    run.feed(("b", None))
    run.feed(("c", None))
    run.stop()
    with closing(SqliteStateProvider(str(tmp_path)).open("carts:cart-0")) as storage:
        assert len(entries(storage)) == 2


class Unusable(Alarms):
    pass


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("state_ttl", "0 s"),
        ("state_ttl", 5),
        ("lag", "-1 s"),
        ("lag", None),
        ("max_ahead", None),
        ("idle", "0 s"),
        ("event_time", "no"),
        ("event_time", 7),
    ],
)
def test_a_wrong_declaration_is_refused_when_the_topology_is_built(attribute: str, value: Any) -> None:
    bolt = Unusable()
    bolt.event_time = "item"
    setattr(bolt, attribute, value)
    with pytest.raises(TopologyError) as caught:
        Run(bolt, LocalCluster())
    assert caught.value.component == "cart"
    assert attribute in caught.value.message


def test_init_timers_without_on_timer_is_refused() -> None:
    class Forgetful(Puts):
        on_timer = BaseStatefulBolt.on_timer  # type: ignore[assignment]

    with pytest.raises(TopologyError, match="on_timer"):
        Run(Forgetful(), LocalCluster())


class Hooks(BaseRichBolt):
    def execute(self, tup: Any) -> None: ...
    def on_timer(self, timer: Any) -> None: ...
    def init_timers(self, timers: Any) -> None: ...


class Basic(BaseBasicBolt):
    event_time = "item"

    def execute(self, tup: Any, collector: Any) -> None: ...


class Batch(BaseBatchBolt):
    state_ttl = "1 h"

    def execute(self, tup: Any) -> None: ...
    def on_timer(self, timer: Any) -> None: ...


class Blocks(BaseArrowBolt):
    def execute_batch(self, batch: Any, collector: Any) -> None: ...
    def on_timers(self, timers: Any) -> None: ...


class Windowed(BaseWindowedBolt):
    event_time = "item"

    def execute(self, window: Any) -> None: ...


@pytest.mark.parametrize(
    ("bolt", "named"),
    [
        (Hooks(), ("on_timer", "init_timers", "BaseStatefulBolt")),
        (Basic(), ("event_time", "BaseStatefulBolt")),
        (Batch(), ("on_timer", "state_ttl", "Committer")),
        (Blocks(), ("on_timers", "BaseStatefulArrowBolt")),
        (Windowed().with_tumbling_window(count=2), ("event_time", "with_timestamp_field")),
    ],
)
def test_timers_and_event_time_of_a_bolt_without_them_are_refused(bolt: Bolt, named: tuple[str, ...]) -> None:
    batches = TransactionalTopologyBuilder("batches", "in", MemoryTransactionalSpout({0: []}, ["item"], 1))
    builder = batches if isinstance(bolt, Batch) else TopologyBuilder()
    with pytest.raises(TopologyError) as caught:
        builder.set_bolt("cart", bolt)
    assert caught.value.component == "cart"
    assert all(name in caught.value.message for name in named)


def test_a_rich_bolt_may_have_attributes_of_its_own_with_the_names_of_event_time() -> None:
    class Own(BaseRichBolt):
        lag = "5 s"
        event_time: Any = None
        on_timer: Any = None

        def __init__(self) -> None:
            self.event_time = "item"

        def execute(self, tup: Any) -> None: ...

    TopologyBuilder().set_bolt("own", Own())


@pytest.mark.parametrize("seconds", [-1, 1e15, float("inf")])
def test_a_ttl_of_the_topology_that_is_negative_or_too_long_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigError):
        Run(Puts(), LocalCluster(), topology_state_ttl_secs=seconds)
