"""What the driver knows of tuple trees."""

from anchorbolt.acker.in_flight import InFlight
from anchorbolt.acker.stored_tree import OpenTree


def test_a_tree_of_an_earlier_run_has_the_time_out_of_this_one() -> None:
    in_flight = InFlight("run", {1: ("in", 0)}, 10.0, excludes=False)
    in_flight.inherit([(7, "in", OpenTree(5, 1, 1, b"m"))], now=100.0)
    assert in_flight.next_deadline == 110.0
