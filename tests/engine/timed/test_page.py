"""The code of `docs/time.md` does what the page says."""

from typing import Any

from anchorbolt.testing import FeederSpout, LocalCluster, ManualClock, TupleCapture
from tests.docs.pages import Page
from tests.engine.jobs import Committed, chain

DEADLINE_S = 30


def test_the_cart_of_the_page_notes_who_left() -> None:
    names: dict[str, Any] = {}
    exec(Page("docs/time.md").blocks[0].text, names)
    clock, spout, captured, committed = ManualClock(), FeederSpout(["user", "item"]), TupleCapture(), Committed()
    topology = chain("carts", {"in": spout, "cart": names["Cart"](), "out": captured})
    handle = LocalCluster(clock=clock).submit(topology, until_empty=False, on_wave=committed)
    spout.feed([("ann", "tea"), ("ann", "jam")])
    assert committed.wait_for(1, DEADLINE_S)
    clock.advance(1800)
    assert committed.wait_for(2, DEADLINE_S)
    assert handle.stop(DEADLINE_S)
    assert captured.tuples == [("ann", 2)]
