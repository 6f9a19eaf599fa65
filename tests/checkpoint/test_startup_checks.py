"""Every reason to refuse a start is found, in a list that a start and `state explain` share."""

from dataclasses import replace

import pytest

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.startup import Found, query_problem, startup_problems
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.errors import CodecMismatch, QueryChanged, StateRegressed, TopologyError
from anchorbolt.state_backends.contract import Fence, NamespaceHead, Seal, StagedAttempt

A = "a" * 32
SEAL = Seal(1, 42)
RECORD = DecisionRecord(
    topology="mine",
    state=CheckpointState(5, Phase.COMMITTED),
    query_id="q",
    batch_id=5,
    winners={"n": Winner(A, 4, SEAL)},
    namespaces={"n": Committed(5, A)},
    parallelism={"count": 2},
    state_schemas={"count": 2},
)
COMMITTING = replace(RECORD, state=CheckpointState(5, Phase.COMMITTING))
HEAD = NamespaceHead(Fence(3, 1), 5, A, "msgpack")
STAGED = StagedAttempt(txid=5, base=4, fence=Fence(3, 1), seal=SEAL)
FOUND = Found(RECORD, RECORD, "q", {"n": HEAD}, "record", generation=3)
EXPECTED = Layout("mine", {"n": "msgpack"}, {"count": 2, "new": 7}, {"count": 2})


def test_what_is_as_expected_gives_no_problem() -> None:
    assert list(startup_problems(EXPECTED, FOUND)) == []
    new = Found(None, None, "", {"n": NamespaceHead()}, "record", generation=0)
    assert list(startup_problems(EXPECTED, new)) == []


@pytest.mark.parametrize(
    ("expected", "found", "kind", "namespace"),
    [
        (EXPECTED, replace(FOUND, stored=replace(RECORD, topology="other")), QueryChanged, None),
        (EXPECTED, replace(FOUND, copied=replace(RECORD, topology="other")), QueryChanged, None),
        (EXPECTED, replace(FOUND, query_id="other"), QueryChanged, None),
        (EXPECTED, replace(FOUND, query_id=""), QueryChanged, None),
        (EXPECTED, Found(None, None, "q", {"n": NamespaceHead()}), QueryChanged, None),
        (replace(EXPECTED, parallelism={"count": 3}), FOUND, TopologyError, None),
        (EXPECTED, replace(FOUND, stored=None, heads={"n": NamespaceHead()}), StateRegressed, None),
        (EXPECTED, replace(FOUND, heads={"n": replace(HEAD, committed=4)}), StateRegressed, "n"),
        (replace(EXPECTED, schema_versions={"count": 1}), FOUND, CodecMismatch, None),
        (replace(EXPECTED, headers={"n": "json"}), FOUND, CodecMismatch, "n"),
        (replace(EXPECTED, headers={"n": CUSTOM_HEADER}), FOUND, CodecMismatch, "n"),
        (EXPECTED, replace(FOUND, generation=2), StateRegressed, "record"),
    ],
)
def test_each_reason_is_found_alone(
    expected: Layout, found: Found, kind: type[Exception], namespace: str | None
) -> None:
    [problem] = startup_problems(expected, found)
    assert type(problem) is kind
    assert getattr(problem, "namespace", None) == namespace


def test_a_custom_state_that_must_commit_needs_its_bolt() -> None:
    head = NamespaceHead(Fence(3, 1), 4, "b" * 32, CUSTOM_HEADER, {A: STAGED})
    found = replace(FOUND, stored=COMMITTING, copied=COMMITTING, heads={"n": head})
    assert list(startup_problems(replace(EXPECTED, headers={"n": CUSTOM_HEADER}), found)) == []
    [problem] = startup_problems(replace(EXPECTED, headers={}), found)
    assert type(problem) is TopologyError


def test_all_reasons_are_found_together() -> None:
    found = replace(FOUND, query_id="other", heads={"n": replace(HEAD, committed=4)}, generation=2)
    kinds = [type(problem) for problem in startup_problems(replace(EXPECTED, headers={"n": "json"}), found)]
    assert kinds == [QueryChanged, StateRegressed, CodecMismatch, StateRegressed]


def test_a_query_is_not_judged_if_it_is_unknown_or_a_new_one_is_accepted() -> None:
    assert list(startup_problems(EXPECTED, replace(FOUND, query_id=None))) == []
    assert list(startup_problems(EXPECTED, replace(FOUND, query_id="other"), accept_new=True)) == []


@pytest.mark.parametrize(("record", "waits"), [(COMMITTING, True), (RECORD, False)])
def test_a_refused_query_names_the_rows_that_wait_at_the_lost_location(record: DecisionRecord, waits: bool) -> None:
    file = SinkFile("out", 0, "checkpoint/1-1/out.parquet", 3, "word string")
    problem = query_problem(replace(record, outbox=(file,)), "")
    assert problem is not None
    assert ("'out'" in problem.message) is waits
