"""The code of `docs/time.md` does what the page says."""

import random
from collections import Counter
from typing import Any

import pytest

from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from anchorbolt.topology import TopologyBuilder
from tests.docs.pages import Page
from tests.engine.jobs import Committed, chain

DEADLINE_S = 30
HOUR, MINUTE = 3_600_000, 60_000


def code_of(name: str) -> dict[str, Any]:
    """Return the names of the block of the page that defines a class."""
    [text] = [block.text for block in Page("docs/time.md").blocks if f"class {name}(" in block.text]
    names: dict[str, Any] = {"__name__": __name__}
    exec(text, names)
    return names


def test_the_cart_of_the_page_notes_who_left() -> None:
    names = code_of("Cart")
    clock, spout, captured, committed = ManualClock(), FeederSpout(["user", "item"]), TupleCapture(), Committed()
    topology = chain("carts", {"in": spout, "cart": names["Cart"](), "out": captured})
    handle = LocalCluster(clock=clock).submit(topology, until_empty=False, on_wave=committed)
    spout.feed([("ann", "tea"), ("ann", "jam")])
    assert committed.wait_for(1, DEADLINE_S)
    clock.advance(1800)
    assert committed.wait_for(2, DEADLINE_S)
    assert handle.stop(DEADLINE_S)
    assert captured.tuples == [("ann", 2)]


@pytest.mark.parametrize("name", ["HourlyVisits", "HourlyVisitsByColumns"])
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("seed", range(2))
def test_the_hourly_count_of_the_page_is_right_with_late_visits_in_any_division_into_waves(
    name: str, size: int, seed: int
) -> None:
    chosen = random.Random(seed)
    visits = sorted((chosen.choice("abc"), chosen.randrange(5 * HOUR)) for _ in range(150))
    delays = {visit: chosen.randrange(5 * MINUTE) for visit in visits}
    arriving = sorted(visits, key=lambda visit: visit[1] + delays[visit])
    late = ("a", 10 * MINUTE)
    arriving.insert(next(place for place, (_, at) in enumerate(arriving) if at > 65 * MINUTE) + 1, late)
    batches = [arriving[start : start + size] for start in range(0, len(arriving), size)]
    captured, builder = TupleCapture(), TopologyBuilder()
    builder.set_spout("visits", FeederSpout(["page", "at"], batches))
    builder.set_bolt("hours", code_of(name)[name](), 2).fields_grouping("visits", "page")
    builder.set_bolt("out", captured).global_grouping("hours")
    conf = {"topology.windows.close.when.empty": True}
    LocalCluster(clock=ManualClock()).submit(builder.create_topology("hourly"), conf).await_termination(DEADLINE_S)
    last = {(page, hour): count for page, hour, count, _ in captured.tuples}
    assert last == Counter((page, at - at % HOUR) for page, at in [*visits, late])
    first = [(page, hour) for page, hour, _, is_update in captured.tuples if not is_update]
    assert len(first) == len(set(first))


def test_storms_windows_and_joins_of_the_page_can_be_made() -> None:
    made: dict[str, Any] = {}
    for block in Page("docs/time.md").blocks:
        if "SlidingSum" in block.text or "JoinBolt(" in block.text:
            exec(block.text, made)
    captured, builder = TupleCapture(), TopologyBuilder()
    builder.set_spout("in", FeederSpout(["value"], [[(number,) for number in range(40)]]))
    builder.set_bolt("sums", made["by_count"]).global_grouping("in")
    builder.set_bolt("out", captured).global_grouping("sums")
    LocalCluster(clock=ManualClock()).submit(builder.create_topology("sums")).await_termination(DEADLINE_S)
    assert [total for _, total in captured.tuples] == [sum(range(max(0, end - 30), end)) for end in (10, 20, 30, 40)]
    builder = TopologyBuilder()
    builder.set_spout("orders", FeederSpout(["id", "amount", "at"]))
    builder.set_spout("payments", FeederSpout(["order_id", "paid", "at"]))
    for name in ("joined", "near"):
        builder.set_bolt(name, made[name], 2).fields_grouping("orders", "id").fields_grouping("payments", "order_id")
    builder.create_topology("joins")


def test_the_rolling_ranks_of_the_page_are_right() -> None:
    [text] = [block.text for block in Page("docs/time.md").blocks if "TopN(" in block.text]
    chosen = random.Random(5)
    waves = [[(f"w{chosen.randrange(20)}",) for _ in range(9)] for _ in range(30)]
    clock, captured, builder = ManualClock(), TupleCapture(), TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"], waves))
    exec(text, {"builder": builder})
    builder.set_bolt("out", captured).global_grouping("top")
    conf = {"topology.windows.close.when.empty": True}
    cluster = LocalCluster(clock=clock)
    topology = builder.create_topology("rolling-top-words")
    cluster.submit(topology, conf, on_wave=lambda report: clock.advance(1)).await_termination(DEADLINE_S)
    expected = []
    for end in range(3, 39, 3):
        counts = Counter(word for wave in waves[max(0, end - 9) : end] for (word,) in wave)
        ranks = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
        expected += [(word, count, end * 1000 - 1) for word, count in ranks[:5]]
    assert captured.tuples == expected
