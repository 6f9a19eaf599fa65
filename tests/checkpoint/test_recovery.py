"""What a starting driver decides about record, copy and namespaces; every reason to refuse a start is found."""

from dataclasses import replace

import pytest

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.checkpoint.recovery import bound_to_query, check_same_decision, check_sequence, plan_recovery
from anchorbolt.checkpoint.startup import Found, query_problem, startup_problems
from anchorbolt.checkpoint.state_machine import Action, CheckpointState, Phase
from anchorbolt.errors import CodecMismatch, QueryChanged, StateCorrupted, StateRegressed, TopologyError
from anchorbolt.state_backends.contract import Fence, NamespaceHead, Seal, StagedAttempt

SEAL = Seal(1, 42)
FILE = SinkFile("out", 0, "checkpoint/anchorbolt/outbox/2-2/out-0-c.parquet", 1, b"")
A, B = "a" * 32, "b" * 32
STAGED = StagedAttempt(txid=5, base=4, fence=Fence(1, 9), seal=SEAL)


def record(phase: Phase, txid: int = 5) -> DecisionRecord:
    """A decision of `txid` in which namespace n goes from txid 4 to `txid`, and m stays at 2."""
    return DecisionRecord(
        state=CheckpointState(txid, phase),
        query_id="q",
        batch_id=txid,
        winners={"n": Winner(A, txid - 1, SEAL)},
        namespaces={"n": Committed(txid, A), "m": Committed(2, B)},
        parallelism={"count": 2},
    )


HEAD_M = NamespaceHead(committed=2, winner=B)
BEFORE = NamespaceHead(committed=4, winner=B, attempts={A: STAGED})
AFTER = NamespaceHead(committed=5, winner=A)


UNDECIDED = replace(AFTER, attempts={B: replace(STAGED, txid=6, base=5)})
WINNER_AND_LOSER = replace(BEFORE, attempts={A: STAGED, B: STAGED})


@pytest.mark.parametrize(
    ("phase", "head", "action", "rolled_forward", "leftovers"),
    [
        pytest.param(Phase.COMMITTING, BEFORE, Action.COMMIT, {"n": Winner(A, 4, SEAL)}, (), id="not committed yet"),
        pytest.param(Phase.COMMITTING, AFTER, Action.COMMIT, {}, (), id="only the mark is missing"),
        pytest.param(Phase.COMMITTED, UNDECIDED, Action.ROLLBACK, {}, ("n",), id="staged and never decided"),
        pytest.param(
            Phase.COMMITTING, WINNER_AND_LOSER, Action.COMMIT, {"n": Winner(A, 4, SEAL)}, ("n",), id="a loser is left"
        ),
        pytest.param(Phase.COMMITTED, AFTER, Action.INITSTATE, {}, (), id="nothing to do"),
    ],
)
def test_a_plan_follows_from_the_record_and_what_is_staged(
    phase: Phase, head: NamespaceHead, action: Action, rolled_forward: dict[str, Winner], leftovers: tuple[str, ...]
) -> None:
    plan = plan_recovery(record(phase), None, {"n": head, "m": HEAD_M})
    assert (plan.action, plan.roll_forward, plan.leftovers) == (action, rolled_forward, leftovers)


def test_a_new_topology_starts_with_an_empty_record() -> None:
    plan = plan_recovery(None, None, {"n": NamespaceHead()})
    assert (plan.action, plan.record) == (Action.INITSTATE, DecisionRecord())


REFUSED_HEADS = {
    "a namespace is gone": {"n": NamespaceHead(), "m": HEAD_M},
    "a namespace that did not change is gone": {"n": AFTER, "m": NamespaceHead()},
    "a namespace is older": {"n": replace(AFTER, committed=3), "m": HEAD_M},
    "another attempt was committed": {"n": replace(AFTER, winner=B), "m": HEAD_M},
    "a namespace is newer than the record": {"n": replace(AFTER, committed=6), "m": HEAD_M},
}


@pytest.mark.parametrize("heads", REFUSED_HEADS.values(), ids=REFUSED_HEADS)
@pytest.mark.parametrize("phase", [Phase.COMMITTED, Phase.COMMITTING])
def test_a_namespace_that_is_not_where_the_record_says_is_refused(
    heads: dict[str, NamespaceHead], phase: Phase
) -> None:
    with pytest.raises(StateRegressed) as caught:
        plan_recovery(record(phase), None, heads)
    assert caught.value.expected
    assert caught.value.found


COMMITTING = record(Phase.COMMITTING)
OTHERWISE = replace(COMMITTING, winners={"n": Winner(B, 4, SEAL)})
OTHER_CONTENT = replace(BEFORE, attempts={A: replace(STAGED, seal=Seal(1, 43))})


@pytest.mark.parametrize(
    ("stored", "copied", "heads", "said"),
    [
        pytest.param(COMMITTING, None, {"n": replace(BEFORE, attempts={})}, "staged for txid 5", id="not staged"),
        pytest.param(COMMITTING, None, {"n": OTHER_CONTENT}, "staged for txid 5", id="staged with other content"),
        pytest.param(None, COMMITTING, {"n": AFTER}, "no decision record", id="only the copy is left"),
        pytest.param(None, None, {"n": AFTER}, "nothing committed", id="only the state is left"),
        pytest.param(record(Phase.COMMITTED, 4), COMMITTING, {}, "txid 5 or later", id="older than the copy"),
        pytest.param(COMMITTING, OTHERWISE, {"n": BEFORE}, "another decision", id="decided otherwise than the copy"),
    ],
)
def test_a_decision_that_was_lost_or_contradicts_its_copy_is_refused(
    stored: DecisionRecord | None, copied: DecisionRecord | None, heads: dict[str, NamespaceHead], said: str
) -> None:
    with pytest.raises(StateRegressed, match=said):
        plan_recovery(stored, copied, heads | {"m": HEAD_M})


def test_a_copy_that_lags_behind_its_record_is_no_reason_to_stop() -> None:
    plan = plan_recovery(record(Phase.COMMITTED), record(Phase.COMMITTING, 4), {"n": AFTER, "m": HEAD_M})
    assert plan.action is Action.INITSTATE


@pytest.mark.parametrize(
    ("stored", "copied", "found"),
    [
        (record(Phase.COMMITTED, 6), record(Phase.COMMITTING, 6), "found another one, of txid 6"),
        (record(Phase.COMMITTING, 6), record(Phase.COMMITTING, 5), "found another one, of txid 6"),
        (record(Phase.COMMITTED, 4), None, "found another one, of txid 4"),
        (replace(record(Phase.COMMITTED), winners={}), None, "found another one, of txid 5"),
        (replace(record(Phase.COMMITTED), outbox=(FILE,)), None, "found another one, of txid 5"),
        (record(Phase.COMMITTED), record(Phase.COMMITTING, 6), "txid 6 or later"),
        (None, record(Phase.COMMITTING), "no decision record"),
        (None, None, "found none"),
    ],
)
def test_what_somebody_else_decided_under_the_same_fence_is_no_decision_of_this_driver(
    stored: DecisionRecord | None, copied: DecisionRecord | None, found: str
) -> None:
    with pytest.raises(StateRegressed, match=found):
        check_same_decision(record(Phase.COMMITTED), stored, copied)


@pytest.mark.parametrize("copied", [record(Phase.COMMITTING), record(Phase.COMMITTING, 4), None])
def test_a_driver_knows_its_own_decision_again(copied: DecisionRecord | None) -> None:
    bound = replace(record(Phase.COMMITTED), query_id="another", batch_id=-1)  # by accept.new.query
    check_same_decision(bound, record(Phase.COMMITTED), copied)
    check_same_decision(bound, record(Phase.COMMITTING), copied)  # the mark alone was lost: nothing is


def test_another_query_counts_its_batches_anew() -> None:
    assert bound_to_query(record(Phase.COMMITTED), "q").batch_id == 5
    accepted = bound_to_query(record(Phase.COMMITTED), "other")
    assert (accepted.query_id, accepted.batch_id, accepted.txid) == ("other", -1, 5)


def test_only_the_committed_batch_or_the_next_one_is_accepted() -> None:
    for batch_id in (5, 6):
        check_sequence(record(Phase.COMMITTED), batch_id)
    with pytest.raises(QueryChanged, match="older copy"):
        check_sequence(record(Phase.COMMITTED), 4)
    with pytest.raises(StateRegressed, match="batch 6"):
        check_sequence(record(Phase.COMMITTED), 7)
    check_sequence(DecisionRecord(), 0)


def test_a_record_survives_encoding() -> None:
    for phase in Phase:
        assert DecisionRecord.decode(record(phase).encode(), "here") == record(phase)


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xc1", b"\x80", b"\x81\xa7version\x03", b"\x81\xa7version\x02"])
def test_bytes_that_are_no_record_are_refused_with_their_place(data: bytes) -> None:
    with pytest.raises(StateCorrupted, match="namespace n"):
        DecisionRecord.decode(data, "namespace n")


MINE = replace(record(Phase.COMMITTED), topology="mine", namespaces={"n": Committed(5, A)}, state_schemas={"count": 2})
MINE_COMMITTING = replace(MINE, state=CheckpointState(5, Phase.COMMITTING))
HEAD = NamespaceHead(Fence(3, 1), 5, A, "msgpack")
FOUND = Found(MINE, MINE, "q", {"n": HEAD}, "record", generation=3)
EXPECTED = Layout("mine", {"n": "msgpack"}, {"count": 2, "new": 7}, {"count": 2})


def test_what_is_as_expected_gives_no_problem() -> None:
    assert list(startup_problems(EXPECTED, FOUND)) == []
    new = Found(None, None, "", {"n": NamespaceHead()}, "record", generation=0)
    assert list(startup_problems(EXPECTED, new)) == []


@pytest.mark.parametrize(
    ("expected", "found", "kind", "namespace"),
    [
        (EXPECTED, replace(FOUND, stored=replace(MINE, topology="other")), QueryChanged, None),
        (EXPECTED, replace(FOUND, copied=replace(MINE, topology="other")), QueryChanged, None),
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
    head = NamespaceHead(Fence(3, 1), 4, "b" * 32, CUSTOM_HEADER, {A: replace(STAGED, fence=Fence(3, 1))})
    found = replace(FOUND, stored=MINE_COMMITTING, copied=MINE_COMMITTING, heads={"n": head})
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


@pytest.mark.parametrize(("record", "waits"), [(MINE_COMMITTING, True), (MINE, False)])
def test_a_refused_query_names_the_rows_that_wait_at_the_lost_location(record: DecisionRecord, waits: bool) -> None:
    file = SinkFile("out", 0, "checkpoint/1-1/out.parquet", 3, b"")
    problem = query_problem(replace(record, outbox=(file,)), "")
    assert problem is not None
    assert ("'out'" in problem.message) is waits
