"""`anchorbolt run --log-format json` around the local engine: each line of standard error is an event."""

import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import DONE, JOB_FAILED, STATE_REFUSED, WRONG_USAGE
from anchorbolt.cli.run.event_display import EventDisplay
from anchorbolt.cli.run.run_job import Run
from anchorbolt.errors import PlatformError
from tests.cli.conftest import WriteFiles
from tests.cli.run.local_engine import JOB, LocalEngine
from tests.conftest import StartRedis

Event = dict[str, Any]
RunJob = Callable[..., tuple[int, list[Event], str]]

NOISY = """
    import logging
    import sys
    import threading
    import warnings
    from ab_summing import summing

    def noisy(conf):
        print("to standard output")
        print("to standard error", file=sys.stderr)
        print("not ended", end="", file=sys.stderr)
        logging.basicConfig(level=logging.INFO)
        logging.getLogger("mine").warning("logged", extra={"order": 7})
        warnings.warn("careful", stacklevel=1)
        thread = threading.Thread(target=lambda: 1 / 0, name="helper")
        thread.start()
        thread.join()
        return summing(conf)
"""


@pytest.fixture
def run(write: WriteFiles, capsys: pytest.CaptureFixture[str]) -> Iterator[RunJob]:
    """Run a job; return the exit code, the events, and what it has printed. Everything is put back as it was."""
    write({"ab_summing.py": JOB, "ab_noisy.py": NOISY})

    def run_job(job: str = "ab_summing:summing", **options: Any) -> tuple[int, list[Event], str]:
        engine = options.pop("engine", None) or LocalEngine()
        root = logging.getLogger()
        before = sys.stderr, threading.excepthook, root.handlers[:], root.level
        code = Run(job, engine, EventDisplay(), **{"until_empty": True, **options}).to_exit_code()
        assert before == (sys.stderr, threading.excepthook, root.handlers, root.level)
        shown = capsys.readouterr()
        return code, [json.loads(line) for line in shown.err.splitlines()], shown.out

    levels = {name: logging.getLogger(name).level for name in ("anchorbolt", "py4j")}
    yield run_job
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_what_a_run_says_are_events_with_its_figures(run: RunJob, here: Path) -> None:
    code, events, printed = run()
    assert (code, printed) == (DONE, "")
    assert {(event["logger"], event["level"], event["topology"]) for event in events} == {
        ("anchorbolt.run", "INFO", "summing")
    }
    assert events[0]["engine"] == "this process"
    assert events[2]["checkpoint"] == f"{here}/anchorbolt-data/summing/checkpoint"
    assert (events[3]["recovery"], events[3]["generation"]) == ("started", 1)
    last = events[-1]
    assert last["message"].startswith("finished: 2 waves, 3 tuples in ")
    assert (last["status"], last["txid"], last["waves"], last["tuples"]) == ("finished", 1, 2, 3)
    assert min(last[f"{phase}_ms"] for phase in ("compute", "prepare", "decide", "commit", "checkpoint")) >= 0


def test_the_jobs_own_output_breaks_no_line(run: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, events, printed = run("ab_noisy:noisy")
    assert (code, printed) == (DONE, "to standard output\n")
    by_logger = {event["logger"]: event for event in events}
    assert [event["message"] for event in events if event["logger"] == "stderr"] == ["to standard error", "not ended"]
    assert (by_logger["mine"]["message"], by_logger["mine"]["order"]) == ("logged", 7)
    assert "careful" in by_logger["py.warnings"]["message"]
    [ended] = [event for event in events if event["message"].startswith("thread 'helper' has ended")]
    assert ended["traceback"].endswith("ZeroDivisionError: division by zero")


def test_an_error_is_an_event_with_component_task_and_the_users_traceback(run: RunJob) -> None:
    code, events, _ = run("ab_summing:failing", overrides=("topology.max.batch.retries=0",))
    assert code == JOB_FAILED
    error = events[-1]
    assert (error["level"], error["error"], error["component"], error["task"]) == ("ERROR", "BoltError", "sum", 0)
    assert error["traceback"].startswith("Traceback ")
    assert error["traceback"].endswith("ValueError: negative: -1")
    assert "Traceback" not in error["message"]


def test_an_error_before_the_start_is_an_event_and_verbose_adds_the_whole_traceback(run: RunJob) -> None:
    code, [error], _ = run("ab_nowhere:topology")
    assert (code, error["level"], error["error"]) == (WRONG_USAGE, "ERROR", "JobError")
    assert "traceback" not in error
    code, events, _ = run(engine=LocalEngine(connect=PlatformError("no Java")), verbose=True)
    assert events[-1]["message"] == "no Java"
    assert "run_job.py" in events[-1]["traceback"]


@pytest.mark.parametrize("password", ["env", "file"])
def test_a_password_is_in_no_event(
    run: RunJob, here: Path, monkeypatch: pytest.MonkeyPatch, start_redis: StartRedis, password: str
) -> None:
    canary = "canary-6f1d"
    server = start_redis(password="another")
    (here / "secret").write_text(canary)
    monkeypatch.setenv("AB_SECRET", canary)
    pool = f"{{host: {server.host}, port: {server.port}, "
    pool += "passwordEnv: AB_SECRET}" if password == "env" else "passwordFile: secret}"
    provider = ("topology.state.provider=redis", f"topology.state.provider.config.jedisPoolConfig={pool}")
    code, events, printed = run(overrides=provider, verbose=True)
    assert code in (WRONG_USAGE, STATE_REFUSED)
    assert events[-1]["level"] == "ERROR"
    assert "canary" not in json.dumps(events) + printed
