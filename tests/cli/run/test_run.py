"""What `anchorbolt run` does around an engine, the local one: what it says, where, and with which exit code."""

import json
import logging
import os
import signal
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import DONE, JOB_FAILED, LEFT_AT_ONCE, PLATFORM_UNUSABLE, STATE_REFUSED, WRONG_USAGE
from anchorbolt.cli.run.progress import Display
from anchorbolt.cli.run.run_job import Run
from anchorbolt.config.settings import Settings
from anchorbolt.engine import RunStatus
from anchorbolt.errors import PlatformError, StateUnavailable
from anchorbolt.topology import Topology
from tests.cli.command import Command, wait_until
from tests.cli.conftest import WriteFiles, invoke
from tests.cli.run.local_engine import JOB, LocalEngine
from tests.servers.server_process import free_port


@pytest.fixture(autouse=True)
def as_it_was(write: WriteFiles) -> Iterator[None]:
    """Write the job, put back the log's level, and see that a run puts back the handlers of signals."""
    write({"ab_summing.py": JOB})
    level = logging.getLogger("anchorbolt").level
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    logging.getLogger("anchorbolt").setLevel(level)
    assert {number: signal.getsignal(number) for number in handlers} == handlers


def run(engine: LocalEngine, job: str = "ab_summing:summing", **options: Any) -> int:
    return Run(job, engine, Display(), **{"until_empty": True, **options}).to_exit_code()


def test_a_job_runs_until_its_source_is_empty(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = LocalEngine()
    assert run(engine) == DONE
    assert engine.handle is not None
    assert engine.handle.status is RunStatus.FINISHED
    assert engine.handle.state("sum") == {"sum": 6}
    assert engine.closed == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert lines[0].endswith("summing on this process")
    assert f"{here}/anchorbolt-data/state" in lines[1]
    assert lines[2] == f"checkpoint: {here}/anchorbolt-data/summing/checkpoint"
    assert lines[3].startswith("recovery: started (generation 1, ")
    assert lines[-1].startswith("finished: 2 waves, 3 tuples in ")
    assert lines[-1].endswith("; the state is at txid 1")


def test_the_file_and_what_is_set_over_it_reach_the_bolts(write: WriteFiles) -> None:
    write(
        {
            "conf.yaml": """
                factor: 10
                topology.state.provider: sqlite
                topology.state.provider.config:
                    directory: elsewhere
            """
        }
    )
    engine = LocalEngine()
    assert run(engine, conf_file=Path("conf.yaml"), overrides=("factor=100",)) == DONE
    assert engine.handle is not None
    assert engine.handle.state("sum") == {"sum": 600}
    assert Path("elsewhere").is_dir()


CONFIG = "topology.state.provider.config"
REDIS = "topology.state.provider=redis"


@pytest.mark.parametrize(
    ("job", "overrides", "code", "said"),
    [
        ("ab_nowhere:topology", (), WRONG_USAGE, "no module 'ab_nowhere'"),
        ("ab_summing:sum", (), WRONG_USAGE, "Did you mean 'summing'?"),
        # Before the job is loaded.
        ("ab_nowhere:x", (f"{CONFIG}.jedisPoolConfig.password=hunter2",), WRONG_USAGE, "passwordEnv"),
        ("ab_summing:summing", ("topology.state.provder=redis",), WRONG_USAGE, "topology.state.provider"),
        # Stores that cannot be used.
        ("ab_summing:summing", ("topology.state.provider=memory",), WRONG_USAGE, "LocalCluster"),
        ("ab_summing:summing", (REDIS, f"{CONFIG}.jedisPoolConfig.port={{port}}"), STATE_REFUSED, "cannot be reached"),
        ("ab_summing:summing", (f"{CONFIG}.keySerializerClass=no_such.Serializer",), WRONG_USAGE, "no_such"),
        ("ab_summing:summing", (f"{CONFIG}.valueSerializerClass=json.JSONEncoder",), WRONG_USAGE, "JSONEncoder"),
    ],
)
def test_what_cannot_run_is_refused_without_a_traceback_before_the_engine_starts(
    here: Path, capsys: pytest.CaptureFixture[str], job: str, overrides: tuple[str, ...], code: int, said: str
) -> None:
    engine = LocalEngine()
    overrides = (*(each.format(port=free_port()) for each in overrides), "topology.message.timeout.secs=2")
    assert run(engine, job, overrides=overrides) == code
    assert not engine.connected
    shown = capsys.readouterr()
    assert said in shown.err
    assert "Traceback" not in shown.err
    assert "hunter2" not in shown.err
    assert shown.out == ""
    assert not (here / "anchorbolt-data").exists()


def test_windows_are_closed_at_the_end_of_a_run_until_empty_only() -> None:
    refused = invoke("run", "ab_summing:summing", "--close-windows")
    assert refused.exit_code == WRONG_USAGE
    assert "--until-empty" in refused.stderr


def test_a_bolt_that_raises_fails_the_job_with_its_own_traceback_and_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = run(LocalEngine(), "ab_summing:failing", overrides=("topology.max.batch.retries=0",))
    assert code == JOB_FAILED
    shown = capsys.readouterr()
    assert "ValueError: negative: -1" in shown.err
    assert shown.err.count("Traceback") == 1
    assert "ab_summing.py" in shown.err
    assert "anchorbolt/cli" not in shown.err
    assert shown.out.splitlines()[-1].startswith("failed: 2 waves, 3 tuples")


def test_verbose_shows_the_whole_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(LocalEngine(), "ab_nowhere:topology", verbose=True) == WRONG_USAGE
    assert "anchorbolt/cli/run/run_job.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("engine", "code", "said", "kind"),
    [
        (LocalEngine(connect=PlatformError("no Java")), PLATFORM_UNUSABLE, "no Java", "PlatformError"),
        (LocalEngine(submit=StateUnavailable("no Redis")), STATE_REFUSED, "no Redis", "StateUnavailable"),
        # Nobody foresaw it: shown whole.
        (LocalEngine(connect=ZeroDivisionError("why")), JOB_FAILED, "Traceback", "ZeroDivisionError"),
    ],
    ids=["no Java", "no Redis", "unforeseen"],
)
def test_what_keeps_the_engine_from_starting_gives_its_exit_code(
    capsys: pytest.CaptureFixture[str], engine: LocalEngine, code: int, said: str, kind: str
) -> None:
    assert run(engine) == code
    assert engine.closed == 1
    shown = capsys.readouterr().err
    assert shown.startswith(said)
    assert shown.endswith(f" ({kind})\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_running_job_clean(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    engine = LocalEngine()

    def send_after_the_first_wave() -> None:
        wait_until(lambda: engine.handle is not None and len(engine.handle.reports) == 2, "two waves")
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send_after_the_first_wave)
    sender.start()
    assert run(engine, until_empty=False) == DONE
    sender.join()
    assert engine.quietened is RunStatus.RUNNING
    shown = capsys.readouterr()
    assert "stopping after the current wave" in shown.out
    assert shown.out.splitlines()[-1].startswith("stopped: 2 waves")
    assert shown.err == ""


def test_a_signal_before_the_start_keeps_the_job_from_starting(capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(LocalEngine):
        def connect(self, topology: Topology, settings: Settings) -> tuple[str, str | None]:
            for _ in range(3):  # more of them change nothing
                signal.raise_signal(signal.SIGTERM)
            return super().connect(topology, settings)

    engine = Interrupted()
    assert run(engine) == DONE
    assert engine.handle is None
    assert engine.closed == 1
    assert capsys.readouterr().out.endswith("stopped before the first wave\n")


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_sigint_after_a_first_signal_leaves_at_once(
    capsys: pytest.CaptureFixture[str], first: signal.Signals
) -> None:
    class TwiceInterrupted(LocalEngine):
        def connect(self, topology: Topology, settings: Settings) -> tuple[str, str | None]:
            signal.raise_signal(first)
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not left")

    engine = TwiceInterrupted()
    assert run(engine) == LEFT_AT_ONCE
    assert engine.closed == 0, "to close it would be to wait for the wave"
    assert "left at once" in capsys.readouterr().err


def test_the_log_goes_to_standard_error_from_warnings_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    run(LocalEngine())
    logging.getLogger("anchorbolt.engine").info("hidden")
    logging.getLogger("anchorbolt.engine").warning("shown")
    error = capsys.readouterr().err
    assert "WARNING anchorbolt.engine: shown" in error
    assert "hidden" not in error
    run(LocalEngine(), verbose=True)
    logging.getLogger("anchorbolt.engine").info("shown now")
    assert "shown now" in capsys.readouterr().err


def test_python_m_anchorbolt_is_the_command() -> None:
    with closing(Command([sys.executable, "-m", "anchorbolt", "--version"], directory=Path.cwd())) as command:
        assert command.end() == 0
        assert command.out.startswith("anchorbolt ")


class Acting(Display):
    """Pauses the run, resumes it once the command has said so, pauses it again, and then sends a signal."""

    def __init__(self, engine: LocalEngine) -> None:
        super().__init__()
        self.engine = engine
        self.paused: list[object] = []

    def refresh(self) -> None:
        super().refresh()
        assert self.engine.handle is not None
        if self.paused in ([], [True, False]):
            self.engine.handle.pause(0)
        elif self.paused == [True]:
            self.engine.handle.resume()
        elif self.engine.handle.paused:
            signal.raise_signal(signal.SIGTERM)

    def say(self, text: str, **fields: object) -> None:
        super().say(text, **fields)
        self.paused += [fields["paused"]] if "paused" in fields else []


def test_it_is_said_when_a_run_is_paused_and_resumed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = LocalEngine()
    assert Run("ab_summing:summing", engine, Acting(engine), until_empty=False).to_exit_code() == DONE
    lines = capsys.readouterr().out.splitlines()
    said = [line for line in lines if line.startswith(("paused:", "resumed"))]
    assert said == [
        "paused: no wave begins until the run is resumed",
        "resumed",
        "paused: no wave begins until the run is resumed",
    ]


class Asking(Display):
    """Asks the page of the run for the configuration once, and then sends a signal."""

    page = ""
    origins: dict[str, str] | None = None

    def say(self, text: str, **fields: object) -> None:
        super().say(text, **fields)
        self.page = str(fields.get("page", self.page))

    def refresh(self) -> None:
        super().refresh()
        if self.origins is None:
            with urllib.request.urlopen(f"{self.page}api/v1/topology/summing/configuration", timeout=30) as answer:
                self.origins = {each["key"]: each["origin"] for each in json.load(answer)["keys"]}
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("options", "file", "origin"),
    [
        ({}, {}, "default"),
        ({}, {"driver-memory": "1g"}, "file conf.json"),
        ({"driver-memory": "2g"}, {}, "command line"),
        ({"driver-memory": "2g"}, {"jars": "a.jar"}, "file conf.json and command line"),
    ],
)
def test_the_page_says_where_each_key_comes_from(
    write: WriteFiles, options: dict[str, str], file: dict[str, str], origin: str
) -> None:
    write({"conf.json": json.dumps({"spark": file, "factor": 2, "topology.metrics.port": 1})})
    display = Asking()
    job = Run(
        "ab_summing:summing",
        LocalEngine(),
        display,
        conf_file=Path("conf.json"),
        overrides=["topology.message.timeout.secs=60"],
        spark=options,
        options={"topology.ui.port": 0, "topology.metrics.port": 0},
    )
    assert job.to_exit_code() == DONE
    assert display.origins is not None
    given = {key: each for key, each in display.origins.items() if each != "default" and key != "spark"}
    assert given == {
        "factor": "file conf.json",
        "topology.message.timeout.secs": "--set",
        "topology.ui.port": "--ui-port",
        "topology.metrics.port": "--metrics-port",
    }
    assert display.origins["spark"] == origin
