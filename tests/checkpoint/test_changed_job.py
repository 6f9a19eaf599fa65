"""Which changes of a job are refused because of the state that they would leave behind."""

from dataclasses import replace
from typing import Any

import pytest

from anchorbolt.checkpoint.changed_job import affected_states, left_behind_after
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Inputs
from anchorbolt.checkpoint.ports import Layout

WORD: Inputs = (("in", "default", "fields(word)"),)
RECORD = DecisionRecord(
    topology="t",
    namespaces={"t:count-0": Committed(3, "a"), "t:count-1": Committed(5, "b"), "t:__acker-0": Committed(5, "c")},
    parallelism={"count": 2, "empty": 2, "__acker": 1},
    groupings={"count": WORD, "empty": WORD},
)
LAYOUT = Layout("t", parallelism={"count": 2, "empty": 2}, groupings={"count": WORD, "empty": WORD})


def affected(record: DecisionRecord, **changes: Any) -> list[str]:
    return [each.component for each in affected_states(replace(LAYOUT, **changes), record, "t")]


@pytest.mark.parametrize(
    ("inputs", "refused"),
    [
        (WORD, False),
        ((("in", "default", "fields(user)"),), True),
        ((("in", "default", "shuffle"),), True),
        ((("lines", "default", "fields(word)"),), False),  # another name of the component
        ((("lines", "default", "fields(user)"),), True),
        ((*WORD, ("other", "default", "shuffle")), False),  # one more input
        ((("in", "late", "fields(word)"), ("in", "default", "fields(user)")), True),
    ],
)
def test_another_grouping_is_refused(inputs: Inputs, refused: bool) -> None:
    groupings = {"count": inputs, "empty": (("in", "default", "all"),)}
    assert affected(RECORD, groupings=groupings) == (["count"] if refused else [])
    one_task = replace(RECORD, parallelism={**RECORD.parallelism, "count": 1})
    assert affected(one_task, groupings=groupings) == []
    assert affected(replace(RECORD, groupings={}), groupings=groupings) == []  # of an older version


def test_a_bolt_with_state_that_is_gone_is_refused_until_its_loss_is_accepted() -> None:
    assert affected(RECORD, parallelism={"counter": 2}) == ["count"]
    left = left_behind_after(RECORD, replace(LAYOUT, parallelism={"counter": 2}))
    assert affected(replace(RECORD, left_behind=left), parallelism={"counter": 2}) == []
    assert left_behind_after(RECORD, LAYOUT) == ()


@pytest.mark.parametrize("keys", [None, 0, 7])
def test_a_refusal_names_the_bolt(keys: int | None) -> None:
    layout = replace(LAYOUT, parallelism={"counter": 2, "empty": 2})
    [state] = affected_states(layout, RECORD, "t")
    assert state.namespaces == ("t:count-0", "t:count-1")
    problem = state.problem(layout, RECORD, keys)
    assert problem.component == "count"
    assert "anchorbolt state rename t count counter" in problem.message
