"""The figures of the progress display, and the two ways to show them."""

import io
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from anchorbolt.cli.run.progress import Activity, Display, Progress
from anchorbolt.engine import WaveReport


@pytest.fixture
def progress() -> Progress:
    return Progress(["lines"], interval_ms=1000, now=10.0)


def wave(txid: int, tuples: int = 1000, compute_ms: float = 400.0, rounds: int = 1) -> WaveReport:
    return WaveReport(
        txid=txid,
        batch_id=txid,
        rounds=rounds,
        tuples_in={"split": tuples * 9},
        tuples_out={"lines": tuples, "split": tuples * 9},
        compute_ms=compute_ms,
        prepare_ms=60.0,
        decide_ms=30.0,
        commit_ms=10.0,
    )


def test_only_the_spouts_tuples_are_counted(progress: Progress) -> None:
    progress.add(wave(0), now=10.0)
    progress.add(wave(1), now=11.0)
    assert (progress.waves, progress.tuples, progress.last) == (2, 2000, wave(1))


def test_the_rate_is_that_of_the_last_ten_seconds_and_falls_when_nothing_comes(progress: Progress) -> None:
    progress.add(wave(0), now=10.5)  # took half a second
    assert progress.rates(10.5) == pytest.approx((2000, 9 * 2000))
    progress.add(wave(1), now=11.5)
    for now, rate in ((12.0, 1000), (20.0, 200), (21.0, 100), (22.0, 0)):
        assert progress.rates(now) == pytest.approx((rate, 9 * rate))


def test_lag_is_what_a_wave_took_longer_than_the_checkpoint_interval(progress: Progress) -> None:
    progress.add(wave(0, compute_ms=400.0), now=1.0)
    assert progress.lag_ms == 0.0
    progress.add(wave(1, compute_ms=1400.0), now=3.0)
    assert progress.lag_ms == pytest.approx(500.0)


def test_the_line_of_a_paused_run_says_so(progress: Progress) -> None:
    progress.paused = True
    assert progress.line(10.0).startswith("paused before the first wave")
    progress.add(wave(7), now=11.0)
    assert progress.line(11.0).startswith("paused after wave 7: ")
    progress.paused = False
    assert progress.line(11.0).startswith("wave 7: ")


def test_plain_lines_come_one_per_wave_and_at_most_one_a_second(
    progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    display = Display(clock=lambda: now)
    display.begin(progress)

    def shown(after: float = 0.0) -> str:
        nonlocal now
        now += after
        display.refresh()
        return capsys.readouterr().out

    assert shown() == ""
    progress.add(wave(0), now)
    assert shown() == "wave 0: 1,000 tuples, 2,000 read/s, 18,000 executed/s, checkpoint 100 ms, lag 0 ms\n"
    progress.add(wave(1), now)
    assert shown(after=0.5) == ""
    assert shown(after=0.5).startswith("wave 1: 2,000 tuples")
    assert shown(after=5) == "", "no wave, no line"


def test_one_tuple_is_one_tuple_and_rounds_that_were_run_again_are_shown(progress: Progress) -> None:
    progress.add(wave(0, tuples=1, rounds=3), now=1.0)
    assert progress.line(1.0).startswith("wave 0: 1 tuple, ")
    assert progress.line(1.0).endswith(", rounds run again: 2")
    progress.add(replace(wave(1, rounds=3), losses=2), now=2.0)
    assert progress.line(2.0).endswith(", rounds run again: 4 (2 after losses)")


def test_what_a_source_has_and_no_wave_has_read_is_shown(progress: Progress) -> None:
    progress.add(replace(wave(0), source_offsets_behind={"in": 12_000}, source_files_waiting={"files": 7}), now=1.0)
    assert "12,000 offsets behind, 7 files waiting" in progress.line(1.0)
    progress.add(replace(wave(1), source_offsets_behind={"in": 0}), now=1.0)
    assert "behind" not in progress.line(1.0)


def test_the_task_for_which_spouts_are_throttled_is_shown(progress: Progress) -> None:
    progress.add(wave(0), now=1.0)
    assert "throttled" not in progress.line(1.0)
    progress.add(replace(wave(1), throttled="too many wait"), now=1.0)
    assert ", spouts throttled until a wave is measured" in progress.line(1.0)
    progress.add(replace(wave(2), throttled="too many wait", throttled_by=("count", 1)), now=1.0)
    assert ", spouts throttled by 'count', task 1" in progress.line(1.0)


def test_a_reader_that_has_gone_does_not_end_the_run(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("out") / "stdout"

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return file.fileno()

    with path.open("w") as file:
        monkeypatch.setattr(sys, "stdout", Gone())
        Display().say("nobody reads this")
        file.write("and this goes nowhere")
    assert path.read_text() == ""


def test_a_terminal_gets_one_line_that_is_drawn_anew(progress: Progress) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, highlight=False)
    display = Display(console, clock=lambda: 11.0)
    display.say("state: sqlite")
    display.begin(progress)
    display.refresh()
    assert "waiting for the first wave" in out.getvalue()
    for txid in range(3):
        progress.add(wave(txid), now=11.0)
        display.refresh()
    display.end()
    display.end()
    display.say("finished")
    text = out.getvalue()
    assert text.startswith("state: sqlite\n")
    assert "wave 2: 3,000 tuples" in text
    assert text.count("\n") < 6, "the waves share a line"
    assert text.endswith("finished\n")


def test_within_a_wave_the_line_shows_tasks_time_and_the_bolt_that_is_waited_for(progress: Progress) -> None:
    progress.activity = Activity(0, 1)
    assert progress.current_wave(10.5) == ""
    assert progress.current_wave(12.0) == " | next: 0 of 1 task, 2 s"
    progress.activity = Activity(3, 8, 1200, "bolt 'count', task 1")
    assert progress.current_wave(42.0) == " | next: 3 of 8 tasks, 1,200 executed, 32 s, waits for bolt 'count', task 1"
    progress.activity = Activity(3, 8, losses=2)
    assert progress.current_wave(42.0) == " | next: 3 of 8 tasks, losses: 2, 32 s"
    progress.activity = Activity(losses=2)
    assert progress.current_wave(42.0) == " | next: is tried again, losses: 2, 32 s"
    progress.activity = Activity(3, 8, 1200, "bolt 'count', task 1")
    progress.add(wave(0), now=43.0)
    assert progress.activity.waits_for is None
    assert progress.current_wave(43.5) == ""


def test_messages_and_dead_letters_are_counted_once_there_are_any(progress: Progress) -> None:
    progress.add(wave(0), now=1.0)
    assert "acked" not in progress.line(1.0)
    assert "dead" not in progress.line(1.0)
    failed = replace(wave(1), messages_acked={"in": 2}, messages_failed={"in": 1}, dead_letters={"in": 1, "lines": 1})
    progress.add(failed, now=2.0)
    assert "2 acked, 1 failed, 2 dead letters" in progress.line(2.0)
