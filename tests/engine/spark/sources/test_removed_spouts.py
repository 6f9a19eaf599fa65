"""Spouts are removed and set back while drivers are killed at any moment: no row is lost, and none counts twice.

A model of Spark and of the state runs with the real `KnownSources`. Spark keeps in `offsets` how far it has read, and
runs the last batch there again if `commits` does not have it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import count
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine.spark.query import QuerySource
from anchorbolt.engine.spark.sources.known import KnownSources
from anchorbolt.errors import Fenced, QueryChanged, StateUnavailable
from tests.engine.spark.handing import Handed
from tests.simulation.folder import SimulatedFolder

NEVER = 99


class Killed(BaseException):
    """The driver was killed."""


class Location:
    """A checkpoint location in memory, with the state that waves at it have committed."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.arrived: Counter[str] = Counter()  # how many rows each source has had
        self.counted: Counter[tuple[str, int]] = Counter()  # how often each row is in the state
        self.wave = -1  # the last batch in the state
        self.read: set[str] = set()  # spouts that have been in any offsets
        self.missed: set[str] = set()  # spouts without which a wave has begun since they were removed
        self.left = NEVER  # moments until the driver is killed
        self.folder = SimulatedFolder(self, "/cp")  # type: ignore[arg-type]

    def copy(self) -> Location:
        other = Location()
        other.files.update(self.files)
        other.arrived, other.counted, other.wave = self.arrived.copy(), self.counted.copy(), self.wave
        other.read, other.missed = set(self.read), set(self.missed)
        return other

    def step(self, what: str) -> None:
        """A moment at which the driver may be killed: before each change."""
        if what.startswith(("read ", "replaced ")):
            return
        self.left -= 1
        if self.left < 0:
            raise Killed

    def run(self, spouts: Collection[str], killed_at: int = NEVER) -> bool:
        """Run the topology until its sources are empty, or it is killed; return False if the start was refused."""
        self.left = killed_at
        for spout in spouts:
            self.arrived[spout] += 1
        known = KnownSources(self.folder, sorted(spouts), can_name=True)
        try:
            known.check()
        except QueryChanged:
            return False
        self.step("claim")
        known.record()
        self.missed -= set(spouts)
        self._query(spouts, known)
        return True

    def latest(self, log: str) -> int:
        return max((int(name) for name in self.folder.names(log)), default=-1)

    def offsets(self, batch: int, spouts: Collection[str]) -> dict[str, int]:
        content = (self.files.get(f"/cp/offsets/{batch}") or b"v2\n{}").decode()
        named = (line.split(":") for line in content.splitlines()[2:])
        return {spout: int(offset) for spout, offset in named if spout in spouts}

    def _query(self, spouts: Collection[str], known: KnownSources) -> None:
        batch = self.latest("offsets")
        if batch > self.latest("commits"):
            self._batch(batch, spouts, known)
        batch += 1
        lines = [f"{spout}:{self.arrived[spout]}" for spout in sorted(spouts)]
        self.step("plan")
        self.read |= set(spouts)
        self.files[f"/cp/offsets/{batch}"] = "\n".join(["v2", "{}", *lines]).encode()
        self._batch(batch, spouts, known)

    def _batch(self, batch: int, spouts: Collection[str], known: KnownSources) -> None:
        if batch > self.wave:
            self.missed |= self.read - set(spouts)
            if known.keeps_removed:
                known.give_up()
            starts, ends = self.offsets(batch - 1, spouts), self.offsets(batch, spouts)
            self.step("commit the wave")
            self.wave = batch
            self.counted.update((spout, row) for spout, end in ends.items() for row in range(starts.get(spout, 0), end))
        self.step("commit the batch")
        self.files[f"/cp/commits/{batch}"] = b"v1\n{}"

    def check_last(self, spouts: Collection[str], accepted: bool) -> None:
        """Check the start that was the last one, and was not killed."""
        if accepted:
            rows = {(spout, row): 1 for spout in spouts for row in range(self.arrived[spout])}
            assert {row: times for row, times in self.counted.items() if row[0] in spouts} == rows
        else:
            held = self.offsets(self.latest("offsets"), spouts)
            assert any(spout in self.missed or spout not in held for spout in self.read & set(spouts))


def started(location: Location, spouts: Collection[str], killed_at: int) -> bool:
    """Run a copy to its end, check it, then run the location with the kill; return whether it was killed."""
    whole = location.copy()
    whole.check_last(spouts, whole.run(spouts))
    try:
        location.run(spouts, killed_at)
    except Killed:
        return True
    return False


def all_runs(location: Location, starts: int, choices: Sequence[str]) -> int:
    """Have `starts` starts in a row, of any choice of spouts, killed at any moment; return how many were checked."""
    checked = 0
    for spouts in choices:
        for killed_at in count() if starts > 1 else [NEVER]:
            after = location.copy()
            killed = started(after, spouts, killed_at)
            checked += 1
            if starts > 1:
                checked += all_runs(after, starts - 1, choices)
            if not killed:
                break
    return checked


def test_a_spout_that_was_removed_and_set_back_between_any_kills_loses_no_row() -> None:
    assert all_runs(Location(), 4, ["a", "ab"]) > 1000


@given(st.lists(st.tuples(st.sets(st.sampled_from("abc"), min_size=1), st.integers(0, 12)), max_size=8))
def test_any_spouts_may_come_and_go_without_a_lost_row(starts: list[tuple[set[str], int]]) -> None:
    location = Location()
    for spouts, killed_at in starts:
        started(location, spouts, killed_at)


def location(**files: str) -> Location:
    """Return a location with these spouts' record and offsets."""
    found = Location()
    found.files.update((f"/cp/{name.replace('_', '/')}", content.encode()) for name, content in files.items())
    return found


def known(at: Location, *spouts: str) -> KnownSources:
    return KnownSources(at.folder, spouts, can_name=True)


def test_a_removed_spout_is_refused_by_all_its_sources() -> None:
    at = location(offsets_3="v2\n{}\na:7\nb_n2:7")  # the function of `b` reads only the second of its sources
    known(at, "a", "b").record()
    known(at, "a").record()
    known(at, "a", "b").check()
    known(at, "a").give_up()
    with pytest.raises(QueryChanged):
        known(at, "a", "b").check()


def test_a_spout_that_an_older_version_recorded_as_removed_is_refused() -> None:
    at = location(offsets_3="v2\n{}\na:7\nb:7")
    at.files["/cp/anchorbolt/spouts.json"] = json.dumps({"spouts": ["a"], "removed": ["b"]}).encode()
    with pytest.raises(QueryChanged, match="'b' before"):
        known(at, "a", "b").check()


def test_a_spout_is_refused_if_a_driver_went_on_without_it_until_it_was_fenced_off() -> None:
    at = location(offsets_3="v2\n{}\na:7\nb:7")
    known(at, "a", "b").record()
    older = known(at, "a")
    older.record()
    newer = known(at, "a", "b")
    newer.check()
    older.give_up()
    with pytest.raises(QueryChanged):
        newer.record()


def query_of(at: Location, spout: Mock, *spouts: str) -> QuerySource:
    plan = Mock(**{"graph.stream_spouts": list(spouts)})
    query = QuerySource(plan, at.folder, Mock(), Mock(), known(at, *spouts))
    query.open(spout, Mock(), until_empty=False)
    return query


def in_flight() -> Location:
    """Return a location whose last batch has the spouts `a` and `b`."""
    at = location(offsets_0='v2\n{}\na:{"logOffset":0}\nb:{"logOffset":0}', metadata="{}")
    known(at, "a", "b").record()
    return at


def begin_wave(query: QuerySource, number: int) -> bool:
    """Hand over a micro-batch; return whether a wave has begun with it."""
    if not Handed(query, number).is_polled():
        return False
    return query.next(DecisionRecord(), None) is not None


def test_a_wave_begins_after_the_removed_spouts_were_given_up() -> None:
    at, spout = in_flight(), Mock(**{"is_committed.return_value": False})
    query = query_of(at, spout, "a")
    known(at, "a", "b").check()
    assert begin_wave(query, 0)
    with pytest.raises(QueryChanged):
        known(at, "a", "b").check()


def test_a_batch_that_was_committed_with_a_spout_gives_it_not_up() -> None:
    at, spout = in_flight(), Mock(**{"is_committed.return_value": True})
    assert not begin_wave(query_of(at, spout, "a"), 0)
    known(at, "a", "b").check()


def test_a_driver_that_was_overtaken_writes_nothing_of_its_spouts() -> None:
    at, spout = in_flight(), Mock(**{"is_committed.return_value": False})
    query = query_of(at, spout, "a")
    known(at, "a", "b", "c").record()
    files = dict(at.files)
    spout.check_not_overtaken.side_effect = Fenced("another driver runs this topology")
    with pytest.raises(Fenced):
        begin_wave(query, 0)
    assert at.files == files


def test_no_wave_begins_if_the_spouts_cannot_be_given_up() -> None:
    at, spout = in_flight(), Mock(**{"is_committed.return_value": False})
    query = query_of(at, spout, "a")
    at.folder.replace = Mock(side_effect=OSError("read-only"))  # type: ignore[method-assign]
    with pytest.raises(StateUnavailable, match="/cp cannot be written: read-only"):
        begin_wave(query, 0)
