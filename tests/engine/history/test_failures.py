"""Which records of a history tell of a failure, and how long what they keep of it may be."""

from __future__ import annotations

from typing import Any

import pytest

from anchorbolt.checkpoint.current_wave import FailedRound
from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.spout import CommittedWave
from anchorbolt.engine.driver.rounds import summarise
from anchorbolt.engine.history.failures import has_failed, letter_of
from anchorbolt.engine.history.records import MOST_BYTES, encoded, wave_record


@pytest.mark.parametrize(
    ("record", "failed"),
    [
        ({"kind": "wave", "rounds": 1, "failed": 0, "dead_letters": 0}, False),
        ({"kind": "wave", "rounds": 2}, True),
        ({"kind": "wave", "rounds": 1, "failed": 3}, True),
        ({"kind": "wave", "rounds": 1, "dead_letters": 1}, True),
        ({"kind": "start"}, False),
        ({"kind": "end", "status": "STOPPED"}, False),
        ({"kind": "end", "status": "FAILED"}, True),
    ],
)
def test_a_failure_is_a_round_again_a_failed_message_a_dead_letter_or_a_failed_run(
    record: dict[str, Any], failed: bool
) -> None:
    assert has_failed(record) is failed


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
    assert (kept["txid"], kept["message"], kept["reason"], kept["traceback"]) == (
        3,
        "7",
        "it called collector.fail",
        "",
    )
    assert "secret" not in str(kept)
    batch = letter_of(4, letter("ValueError: no", stream="", values=(4, b"metadata"), msg_id=None))
    assert batch["message"] == "batch 4"


def test_the_record_of_a_wave_is_short_enough_to_be_read_again_whatever_failed_in_it() -> None:
    long = "Traceback\n" + "\N{SNOWMAN}" * 100_000
    failed = FailedRound(1.0, "\N{SNOWMAN}" * 1000, "bolt", 0, long[:4000])
    letters = [letter(long, msg_id="\N{SNOWMAN}" * 1000)] * 100
    wave = CommittedWave(3, 3, 11, 0, [failed] * 10, [], letters, 1.0, 1.0, 1.0, 1.0)
    kept = [letter_of(3, each) for each in letters]
    record = wave_record(1, summarise(wave), [], 1.0, failed_rounds=wave.round_failures, letters=kept)
    assert len(encoded(record)) <= MOST_BYTES
    assert record["dead_letters"] == 100
    assert len(record["failures"]) >= 1
