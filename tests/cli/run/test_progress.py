"""The figures of the progress display, and the two ways to show them."""

import io
import sys

import pytest
from rich.console import Console

from anchorbolt.cli.run.progress import Activity, Display, Progress
from anchorbolt.engine.driver.reports import WaveReport


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


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


def test_only_the_spouts_tuples_are_counted() -> None:
    progress = Progress(["lines"], interval_ms=1000)
    progress.add(wave(0), now=10.0)
    progress.add(wave(1), now=11.0)
    assert (progress.waves, progress.tuples, progress.last) == (2, 2000, wave(1))


def test_the_rate_is_that_of_the_last_ten_seconds_and_falls_when_nothing_comes() -> None:
    progress = Progress(["lines"], interval_ms=1000)
    progress.add(wave(0), now=10.5)  # took half a second
    assert progress.rates(10.5) == pytest.approx((2000, 9 * 2000))
    progress.add(wave(1), now=11.5)
    assert progress.rates(12.0) == pytest.approx((1000, 9 * 1000))
    assert progress.rates(20.0) == pytest.approx((200, 9 * 200))
    assert progress.rates(21.0) == pytest.approx((100, 9 * 100))
    assert progress.rates(22.0) == (0.0, 0.0)


def test_lag_is_what_a_wave_took_longer_than_the_checkpoint_interval() -> None:
    progress = Progress(["lines"], interval_ms=1000)
    progress.add(wave(0, compute_ms=400.0), now=1.0)
    assert progress.lag_ms == 0.0
    progress.add(wave(1, compute_ms=1400.0), now=3.0)
    assert progress.lag_ms == pytest.approx(500.0)


def test_plain_lines_come_one_per_wave_and_at_most_one_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    display, progress = Display(clock=clock), Progress(["lines"], interval_ms=1000)
    display.begin(progress)
    display.refresh()
    assert capsys.readouterr().out == ""
    progress.add(wave(0), clock.now)
    display.refresh()
    assert (
        capsys.readouterr().out
        == "wave 0: 1,000 tuples, 2,000 read/s, 18,000 executed/s, checkpoint 100 ms, lag 0 ms\n"
    )
    progress.add(wave(1), clock.now)
    clock.now += 0.5
    display.refresh()
    assert capsys.readouterr().out == ""
    clock.now += 0.5
    display.refresh()
    assert capsys.readouterr().out.startswith("wave 1: 2,000 tuples")
    clock.now += 5
    display.refresh()
    assert capsys.readouterr().out == "", "no wave, no line"


def test_one_tuple_is_one_tuple(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(["lines"], interval_ms=1000)
    progress.add(wave(0, tuples=1), now=1.0)
    display = Display(clock=lambda: 1.0)
    display.begin(progress)
    display.refresh()
    assert capsys.readouterr().out.startswith("wave 0: 1 tuple, ")


def test_rounds_that_were_run_again_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(["lines"], interval_ms=1000)
    progress.add(wave(0, rounds=3), now=1.0)
    display = Display(clock=lambda: 1.0)
    display.begin(progress)
    display.refresh()
    assert "rounds run again: 2" in capsys.readouterr().out


def test_a_reader_that_has_gone_does_not_end_the_run(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("out") / "stdout"

    class Gone(io.StringIO):
        def __init__(self) -> None:
            super().__init__()
            self.file = path.open("w")

        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            return self.file.fileno()

    gone = Gone()
    with gone.file:
        monkeypatch.setattr(sys, "stdout", gone)
        Display().say("nobody reads this")
        gone.file.write("and this goes nowhere")
    assert path.read_text() == ""


def test_a_terminal_gets_one_line_that_is_drawn_anew() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, highlight=False)
    display, progress = Display(console, clock=lambda: 11.0), Progress(["lines"], interval_ms=1000)
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


def test_within_a_wave_the_line_shows_tasks_time_and_the_bolt_that_is_waited_for() -> None:
    progress = Progress(["lines"], interval_ms=1000, now=10.0)
    progress.activity = Activity(0, 1)
    assert progress.current_wave(10.5) == ""
    assert progress.current_wave(12.0) == " | next: 0 of 1 task, 2 s"
    progress.activity = Activity(3, 8, "bolt 'count', task 1")
    assert progress.current_wave(42.0) == " | next: 3 of 8 tasks, 32 s, waits for bolt 'count', task 1"
    progress.add(wave(0), now=43.0)
    assert progress.activity.waits_for is None
    assert progress.current_wave(43.5) == ""
