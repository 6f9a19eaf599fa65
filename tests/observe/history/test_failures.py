"""Which records of a history tell of a failure, and how long what they keep of it may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anchorbolt.checkpoint.coordinator import CommittedWave
from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.engine.sources.wave_report import WaveReport, summarise
from anchorbolt.observe.history.failures import letter_of, reasons_in
from anchorbolt.observe.history.recording import wave_record
from anchorbolt.observe.history.records import MOST_BYTES, End, FailedMessage, Holder, Record, Start, Wave, encoded
from anchorbolt.tracking.settlements import FailedTree

HEAD: Any = {"at": 1.0, "generation": 1, "txid": 0}


@pytest.mark.parametrize(
    ("record", "failed"),
    [
        (Wave(**HEAD), False),
        (Wave(**HEAD, rounds=2), True),
        (Wave(**HEAD, failed=3), True),
        (Wave(**HEAD, dead_letters=1), True),
        (Start(**HEAD), False),
        (End(**HEAD, status="STOPPED"), False),
        (End(**HEAD, status="FAILED"), True),
    ],
)
def test_a_failure_is_a_round_again_a_failed_message_a_dead_letter_or_a_failed_run(
    record: Record, failed: bool
) -> None:
    assert record.has_failed is failed


def letter(reason: str, **changes: Any) -> DeadLetter:
    fields: dict[str, Any] = {
        "spout": "in",
        "stream": "default",
        "values": ("secret",),
        "msg_id": 7,
        "component": "bolt",
        "task_index": 0,
        "reason": reason,
        "tries": 1,
        "at": 1.0,
    }
    return DeadLetter(**{**fields, **changes})


def test_a_letter_is_kept_without_its_values_and_without_a_traceback_if_nothing_was_raised() -> None:
    kept = letter_of(3, letter("it called collector.fail"))
    assert (kept.txid, kept.message, kept.reason, kept.traceback) == (3, "7", "it called collector.fail", "")
    assert "secret" not in str(kept)
    batch = letter_of(4, letter("ValueError: no", stream="", values=(4, b"metadata"), msg_id=None))
    assert batch.message == "batch 4"


def test_the_record_of_a_wave_is_short_enough_to_be_read_again_whatever_failed_in_it() -> None:
    long = "Traceback\n" + "\N{SNOWMAN}" * 100_000
    failed = FailedRound(1.0, "\N{SNOWMAN}" * 1000, "bolt", 0, long[:4000])
    letters = [letter(long, msg_id="\N{SNOWMAN}" * 1000)] * 100
    wave = CommittedWave(3, 3, 11, 0, [failed] * 10, [], letters, 1.0, 1.0, 1.0, 1.0)
    kept = [letter_of(3, each) for each in letters]
    trees = tuple(FailedTree("in", long, "bolt", 0, long[:300]) for _ in range(100))
    report = replace(summarise(wave), failures=trees, messages_failed={"in": 100})
    record = wave_record(1, report, [], 1.0, failed_rounds=wave.round_failures, letters=kept)
    assert len(encoded(record)) <= MOST_BYTES
    assert record.dead_letters == 100
    assert len(record.failures) >= 1


def test_the_record_of_a_wave_has_its_first_failed_messages_and_who_held_what_timed_out() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ValueError

    late = FailedTree("in", Odd(), "keeps", 1, "timed out after 30 s", timed_out=True)
    report = WaveReport(
        5,
        5,
        rounds=2,
        messages_failed={"in": 9},
        messages_timed_out={("in", ("keeps", 1)): 1},
        failures=(FailedTree("in", "m1", "work", 0, "ValueError: no"), late, *[late] * 7),
    )
    record = wave_record(1, report, [], 1.0)
    assert len(record.messages) == 5
    assert record.messages[0] == FailedMessage("in", "m1", "work", 0, "ValueError: no", timed_out=False)
    assert record.timed_out == [Holder("in", "keeps", 1, 1)]
    first = "the first of them: bolt 'work', task 0: ValueError: no"
    assert reasons_in(record) == [f"1 round run again to leave out failed messages; {first}"]


@pytest.mark.parametrize(
    ("failures", "rounds", "repeats"), [((), 1, 0), (("a",), 2, 0), (("a",), 4, 2), (("a",) * 10, 20, 0)]
)
def test_rounds_that_did_not_fail_were_run_again_to_leave_out_messages(
    failures: tuple[str, ...], rounds: int, repeats: int
) -> None:
    record = wave_record(1, WaveReport(5, 5, rounds=rounds, round_failures=failures), [], 1.0)
    assert record.repeats == repeats
    assert len(reasons_in(record)) == len(failures) + (repeats > 0)


def test_of_an_older_record_all_repeated_rounds_without_an_error_left_out_messages() -> None:
    assert len(reasons_in(Wave(**HEAD, rounds=3))) == 1
    assert reasons_in(Wave(**HEAD, rounds=3, failures=["a"])) == ["a"]
