"""The bolts of docs/vectorised.md do what the page says."""

from collections import Counter
from typing import Any

import pytest

from anchorbolt.bolts.base import Bolt
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.testing import TupleCapture
from anchorbolt.topology import TopologyBuilder
from tests.docs.pages import Page
from tests.engine.jobs import finished
from tests.engine.vectorised.jobs import counting

ORDERS = [("ann", 150.0), ("bob", 30.0), ("ann", 20.0), ("bob", 101.0)]


@pytest.fixture(scope="module")
def bolts() -> dict[str, Any]:
    found: dict[str, Any] = {"__name__": __name__}
    for block in Page("docs/vectorised.md").blocks:
        exec(block.text, found)
    return found


@pytest.mark.parametrize("count", ["Count", "CountDistinct"])
def test_the_words_are_counted(bolts: dict[str, Any], count: str) -> None:
    text = ["a b a", "b", "c a"] * 200
    spout = FeederSpout(["sentence"], [[(each,) for each in text]])
    handle = finished(counting(spout, bolts["Split"](), bolts[count]()))
    assert handle.state("count") == Counter(" ".join(text).split())


def of_orders(bolt: Bolt) -> list[tuple[Any, ...]]:
    builder, captured = TopologyBuilder(), TupleCapture()
    builder.set_spout("orders", FeederSpout(["customer", "amount"], [ORDERS]))
    builder.set_bolt("bolt", bolt).global_grouping("orders")
    builder.set_bolt("out", captured).global_grouping("bolt")
    finished(builder.create_topology("orders"))
    return captured.tuples


def test_pandas_adds_up(bolts: dict[str, Any]) -> None:
    assert sorted(of_orders(bolts["Totals"]())) == [("ann", 170.0), ("bob", 131.0)]


def test_polars_filters(bolts: dict[str, Any]) -> None:
    assert of_orders(bolts["Large"]()) == [("ann", 150.0), ("bob", 101.0)]
