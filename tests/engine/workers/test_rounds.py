"""Where tasks are placed, and when the driver tells workers how many blobs to expect."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.engine.workers.rounds import Member, Placement, RoundProgress, Slot, Table
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count


def wiring_of(sizes: list[int]) -> Any:
    """Return a wiring with so many tasks in each level."""
    levels = [[(f"level {number}", each) for each in range(size)] for number, size in enumerate(sizes, start=1)]
    places = {task: (number, each) for number, level in enumerate(levels, start=1) for each, task in enumerate(level)}
    return SimpleNamespace(levels=levels, places=places, stages=[[[task] for task in level] for level in levels])


SIZES = st.lists(st.integers(1, 9), max_size=5)
SLOTS = st.integers(1, 5)


@given(SIZES, SLOTS)
def test_every_task_has_one_slot_and_slots_have_almost_as_many_tasks(sizes: list[int], slots: int) -> None:
    wiring = wiring_of(sizes)
    placement = Placement(wiring, slots)
    by_slot = {slot: list(placement.tasks(wiring, slot)) for slot in range(slots)}
    placed = [task for tasks in by_slot.values() for _, _, task in tasks]
    assert sorted(placed) == sorted(wiring.places)
    for slot, tasks in by_slot.items():
        assert [(level, each) for level, each, _ in tasks] == [wiring.places[task] for _, _, task in tasks]
        assert {placement.of(level, each) for level, each, _ in tasks} <= {slot}
        assert [level for level, _, _ in tasks] == sorted(level for level, _, _ in tasks)
    for level in range(1, len(sizes) + 1):
        assert set(placement.levels[level - 1]) == {placement.of(level, each) for each in range(sizes[level - 1])}
    counts = [[sum(at == level for at, _, _ in by_slot[slot]) for slot in by_slot] for level in range(len(sizes) + 1)]
    for counted in [*counts, [len(tasks) for tasks in by_slot.values()]]:
        assert max(counted) - min(counted) <= 1
    asked = {slot: [task for _, _, task in tasks] for slot, tasks in by_slot.items() if tasks}
    assert placement.by_slot(wiring, wiring.places) == asked


def test_the_tasks_of_a_plan_are_placed() -> None:
    plan = prepare_plan(word_count(feeder(), parallelism=3), {}, memory=MemoryStateProvider(), location="nowhere")
    placement = Placement(plan.wiring, 2)
    tasks = [task for slot in range(2) for _, _, task in placement.tasks(plan.wiring, slot)]
    assert sorted(tasks) == sorted(plan.wiring.places)


class Model:
    """What a driver may know of a round, worked out anew each time."""

    def __init__(self, placement: Placement, sources: set[Slot], *, has_feed: bool) -> None:
        self.waits_for = {(slot, 0) for slot in sources}
        for level, slots in enumerate(placement.levels, start=1):
            self.waits_for |= {(slot, level) for slot in slots}
        self.placement, self.has_feed = placement, has_feed
        self.told: set[tuple[Slot, int]] = set()
        self.sent: Counter[tuple[int, Slot]] = Counter()

    def may_be_told(self) -> list[tuple[Slot, int, int]]:
        """Return what has become certain: nobody can send to a level any more."""
        found = []
        for level, slots in enumerate(self.placement.levels, start=1):
            if self.has_feed or any(before < level for _, before in self.waits_for):
                break
            for slot in sorted(set(slots)):
                if (slot, level) not in self.told:
                    self.told.add((slot, level))
                    found.append((slot, level, self.sent[level, slot]))
        return found

    @property
    def is_done(self) -> bool:
        return not self.waits_for and not self.has_feed


@given(SIZES, SLOTS, st.booleans(), st.data())
def test_a_level_is_told_when_nobody_can_send_to_it_any_more(
    sizes: list[int], slots: int, has_feed: bool, data: st.DataObject
) -> None:
    placement = Placement(wiring_of(sizes), slots)
    sources = data.draw(st.sets(st.integers(0, slots - 1)))
    progress, model = RoundProgress(placement, sources, has_feed=has_feed), Model(placement, sources, has_feed=has_feed)
    counts = st.dictionaries(
        st.tuples(st.integers(1, max(1, len(sizes))), st.integers(0, slots - 1)), st.integers(0, 9)
    )
    assert list(progress.begin()) == model.may_be_told()
    reports: list[bytes] = []
    executed = {}
    while not model.is_done:
        assert not progress.is_done
        # A worker has ended a level only if it was told what to expect at it. Its source has to be told nothing.
        ready = sorted((slot, level) for slot, level in model.waits_for if level == 0 or (slot, level) in model.told)
        choice = data.draw(st.sampled_from([*ready, None] if model.has_feed else ready))
        sent = data.draw(counts)
        sent = {place: blobs for place, blobs in sent.items() if choice is None or place[0] > choice[1]}
        model.sent.update(sent)
        if choice is None:
            model.has_feed = False
            assert list(progress.feed_ended(sent)) == model.may_be_told()
            continue
        model.waits_for.remove(choice)
        slot, level = choice
        reports.append(b"%d %d" % choice)
        executed[f"level {level}", slot] = 7
        listed = [[each, to, blobs] for (each, to), blobs in sent.items()]
        told = progress.ended(slot, level, listed, [(f"level {level}", slot, 7)], reports[-1:])
        assert list(told) == model.may_be_told()
    assert progress.is_done
    assert (progress.reports, progress.executed) == (reports, executed)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.booleans())))
def test_a_slot_has_its_latest_worker_and_each_change_of_the_table_has_a_number(
    changes: list[tuple[Slot, int, bool]],
) -> None:
    table = Table(0, {})
    for slot, incarnation, is_gone in changes:
        before = table.members.get(slot)
        member = Member(incarnation, "host", 1)
        changed = table.without(slot) if is_gone else table.with_member(slot, member)
        if not is_gone and before is not None and before.incarnation >= incarnation:
            assert changed is None
            continue
        assert changed is not None
        assert changed.number == table.number + 1
        assert changed.members.get(slot) == (None if is_gone else member)
        others = {each: of for each, of in table.members.items() if each != slot}
        assert {each: of for each, of in changed.members.items() if each != slot} == others
        table = changed


@pytest.mark.parametrize("incarnation", [3, 4])
def test_an_older_or_equal_incarnation_does_not_replace_a_worker(incarnation: int) -> None:
    table = Table(7, {0: Member(4, "here", 1)})
    assert table.with_member(0, Member(incarnation, "there", 2)) is None
    later = table.with_member(0, Member(5, "there", 2))
    assert later == Table(8, {0: Member(5, "there", 2)})
