"""`anchorbolt run` as its user runs it: a process of its own, on a real Spark."""

import json
import random
import re
import signal
import socket
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow.parquet as pq
import pyspark
import pytest

from anchorbolt.files import open_folder
from anchorbolt.observe.history.records import End, Start, Wave
from anchorbolt.observe.history.segments import read_history
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from tests.cli.command import ROOT, Command, run_arguments, wait_until
from tests.cli.conftest import WriteFiles
from tests.conftest import StartRedis

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FILES = 5
LINES = 40

# Those of the example, with a function of a sibling in the package.
BOLTS = "from .texts import words\n" + (ROOT / "examples" / "word_count" / "job.py").read_text().replace(
    'tup["sentence"].split()', 'words(tup["sentence"])'
)

WORD_COUNT = """
from anchorbolt.bolts import ParquetSink
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder
from .bolts import SplitSentence, WordCount

def topology(conf):
    def lines(spark):
        return spark.readStream.option("maxFilesPerTrigger", 1).text("in/")
    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(lines, fields=["sentence"]))
    builder.set_bolt("split", SplitSentence(), parallelism=2).shuffle_grouping("sentences")
    builder.set_bolt("count", WordCount(), parallelism=2).fields_grouping("split", "word")
    builder.set_bolt("out", ParquetSink("out")).global_grouping("count")
    return builder.create_topology("word-count")
"""

ONE_FILE = """
import logging
import os
import time
from pathlib import Path
from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.spouts import StreamSpout
from anchorbolt.topology import TopologyBuilder
from sibling import first_word

class Hang(BaseBasicBolt):
    def execute(self, tup, collector):
        Path("hanging").touch()
        while True:
            time.sleep(0.1)

class Raise(BaseBasicBolt):
    def execute(self, tup, collector):
        raise ValueError("no such word: " + first_word(tup["sentence"]))

def build(bolt):
    builder = TopologyBuilder()
    builder.set_spout("sentences", StreamSpout(lambda spark: spark.readStream.text("in/"), fields=["sentence"]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("sentences")
    return builder.create_topology("one-bolt")

class Exit(BaseBasicBolt):
    def execute(self, tup, collector):
        os._exit(3)

class Fork(BaseStatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
    def init_state(self, state):
        self.state = state
    def execute(self, tup):
        os.fork()
        self.state["tuples"] = self.state.get("tuples", 0) + 1
        self.collector.ack(tup)
    def pre_prepare(self, txid):
        if os.fork() == 0:
            raise ValueError("in the child")
    def pre_commit(self, txid):
        os.fork()

class Talk(BaseBasicBolt):
    def execute(self, tup, collector):
        print("printed by the bolt", flush=True)
        logging.getLogger("mine").warning("logged by the bolt", extra={"order": 7})
        raise ValueError("no such word")

def exiting(): return build(Exit())
def forking(): return build(Fork())
def hanging(): return build(Hang())
def raising(): return build(Raise())
def talking(): return build(Talk())
"""

StartCommand = Callable[..., Command]


@pytest.fixture
def directory(write: WriteFiles) -> Path:
    """Where the person types: some texts, a project with a package of jobs, and a job file with a sibling.

    A local Spark's workers look for modules in this directory, but not in these two.
    """
    generator = random.Random(20)
    vocabulary = [f"word{number}" for number in range(60)]
    files = {
        "project/jobs/__init__.py": "",
        "project/jobs/texts.py": "def words(sentence):\n    return sentence.split()\n",
        "project/jobs/bolts.py": BOLTS,
        "project/jobs/word_count.py": WORD_COUNT,
        "alone/one_file.py": ONE_FILE,
        "alone/sibling.py": "def first_word(text):\n    return text.split()[0]\n",
    }
    for number in range(FILES):
        files[f"in/{number}.txt"] = "\n".join(" ".join(generator.choices(vocabulary, k=8)) for _ in range(LINES))
    return write(files)


@pytest.fixture
def start(directory: Path) -> Iterator[StartCommand]:
    """Start `anchorbolt run` with these arguments; whatever is left of it is killed afterwards."""
    with ExitStack() as stack:

        def start_command(*arguments: str, **options: Any) -> Command:
            whole = [*run_arguments(*arguments), "--master", "local[2]"]
            return stack.enter_context(closing(Command(whole, directory=directory, **options)))

        yield start_command


def expected(directory: Path) -> Counter[str]:
    return Counter(word for file in (directory / "in").iterdir() for word in file.read_text().split())


def counted(directory: Path) -> Counter[str]:
    """Return how often each word came out of the topology, having checked that it was counted without a gap."""
    counts: dict[str, list[int]] = {}
    for file in (directory / "out").glob("*.parquet"):
        table = pq.read_table(file)  # type: ignore[no-untyped-call]
        for word, count in zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True):
            counts.setdefault(word, []).append(count)
    for word, numbers in counts.items():
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), word
    return Counter({word: len(numbers) for word, numbers in counts.items()})


@pytest.mark.parametrize(("workers", "threads"), [([], 2), (["--workers", "1"], 3)])
def test_a_package_is_run_until_its_source_is_empty_and_says_where_everything_is(
    start: StartCommand, directory: Path, workers: list[str], threads: int
) -> None:
    command = start("project.jobs.word_count:topology", "--until-empty", *workers)
    assert command.end() == 0, repr(command)
    records = list(read_history(open_folder(f"{directory}/anchorbolt-data/word-count/checkpoint")))
    assert [type(record) for record in records] == [Start, *[Wave] * FILES, End]
    assert sum(sum(record.executed.values()) for record in records if isinstance(record, Wave)) > 0
    assert counted(directory) == expected(directory)
    printed = command.out.splitlines()
    assert re.fullmatch(rf"anchorbolt \S+: word-count on Spark \S+, local\[{threads}\]", printed[0])
    assert printed[1] == f"state: SQLite files in {directory}/anchorbolt-data/state"
    assert printed[2] == f"checkpoint: {directory}/anchorbolt-data/word-count/checkpoint"
    assert printed[3].startswith("recovery: started (generation 1, ")
    assert all(line.startswith("wave ") for line in printed[4:-1])
    assert printed[-1].startswith(f"finished: {FILES} waves, {FILES * LINES:,} tuples")
    assert command.err == "", "nothing of Java's, Spark's or Python's"


def test_sparks_options_reach_spark_and_its_ui_listens_on_this_machine_only(
    start: StartCommand, directory: Path
) -> None:
    (directory / "conf.yaml").write_text(
        "spark: {driver-memory: 600m, executor-memory: 2g, conf: {spark.sql.shuffle.partitions: 3}}\n"
    )
    ZipFile(directory / "one.jar", "w").close()
    options = ["--conf", "conf.yaml", "--driver-memory", "700m", "--spark-conf", "spark.ui.enabled=true"]
    more = ["--jars", "one.jar", "--num-executors", "3", "--executor-cores", "2", "--metrics-port", "0"]
    command = start("alone/one_file.py:hanging", *options, *more)
    command.wait_for("recovery: ")
    [ui] = re.findall(r"^Spark's UI: http://localhost:(\d+)$", command.out, re.MULTILINE)

    def read(path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{ui}/api/v1/applications{path}", timeout=60) as answer:
            return json.load(answer)

    [application] = read("")
    shown = dict(read(f"/{application['id']}/environment")["sparkProperties"])
    assert shown["spark.driver.memory"] == "700m"
    assert shown["spark.executor.memory"] == "2g"
    assert shown["spark.sql.shuffle.partitions"] == "3"
    assert (shown["spark.executor.instances"], shown["spark.executor.cores"]) == ("3", "2")
    assert shown["spark.jars"].endswith("one.jar")
    [metrics] = re.findall(r"^metrics: (http://127\.0\.0\.1:\d+/metrics)$", command.out, re.MULTILINE)
    wait_until((directory / "hanging").exists, "the wave hangs")
    with urllib.request.urlopen(metrics, timeout=60) as answer:
        shown_metrics = answer.read().decode()
    [age] = re.findall(r"^anchorbolt_wave_age_seconds\{.*\} (.*)$", shown_metrics, re.MULTILINE)
    assert float(age) > 0
    elsewhere = socket.gethostbyname(socket.gethostname())
    if not elsewhere.startswith("127."):
        for port in (int(ui), int(metrics.split(":")[2].partition("/")[0])):
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((elsewhere, port), timeout=5)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("SIGTERM", marks=pytest.mark.thorough),
        pytest.param("SIGINT to the process group", marks=pytest.mark.thorough),
        "Ctrl-C on the terminal",
    ],
)
def test_a_stopped_run_ends_clean_and_the_next_one_completes_it(start: StartCommand, directory: Path, how: str) -> None:
    first = start("project/jobs/word_count.py:topology", terminal=how.endswith("terminal"))
    first.wait_for("wave 0:")
    if how == "SIGTERM":
        first.send(signal.SIGTERM)
    elif how == "Ctrl-C on the terminal":
        first.type(b"\x03")
    else:
        first.send_to_group(signal.SIGINT)
    assert first.end() == 0, repr(first)
    assert "stopped:" in first.out
    assert first.err == "", "not even a complaint of PySpark's daemon about a pipe that Java has closed"
    assert "Traceback" not in first.out
    if how == "Ctrl-C on the terminal":
        assert "\x1b[" in first.out, "a terminal gets a live line"
    wait_until(lambda: not first.session(), f"all processes gone: {first.session()}")
    done = counted(directory)
    assert 0 < done.total() < expected(directory).total(), "it was to be stopped in the middle"
    second = start("project/jobs/word_count.py:topology", "--until-empty")
    assert second.end() == 0, repr(second)
    assert "recovery: resumed" in second.out
    assert counted(directory) == expected(directory)


def test_a_bolt_that_does_not_return_is_named_by_the_warning_the_line_and_ctrl_c_and_verbose_hides_nothing(
    start: StartCommand, directory: Path
) -> None:
    command = start("alone/one_file.py:hanging", "--verbose", "--set", "topology.message.timeout.secs=2", terminal=True)
    command.wait_for("waits for bolt 'bolt', task 0")
    command.wait_for("has been in execute")
    assert re.search(r"bolt 'bolt', task 0, has been in execute\(Tuple\(sentence='word", command.out)
    assert 'one_file.py", line ' in command.out
    assert "Setting default log level to" in command.out, "what every start of Spark says"
    assert "time.sleep(0.1)" in command.out
    command.type(b"\x03")
    command.wait_for("stopping after the current wave, which waits for bolt 'bolt', task 0")
    command.type(b"\x03")
    assert command.end() == 130, repr(command)


@pytest.mark.parametrize(
    ("job", "setting", "warnings"),
    [("hanging", "topology.task.timeout.secs=1", 2), pytest.param("exiting", "own=1", 0, marks=pytest.mark.thorough)],
)
@pytest.mark.thorough
def test_a_worker_that_ended_is_named_by_its_task_and_ended_if_its_bolt_takes_too_long(
    start: StartCommand, directory: Path, job: str, setting: str, warnings: int
) -> None:
    command = start(f"alone/one_file.py:{job}", "--set", setting, "--set", "topology.max.batch.retries=1")
    assert command.end() == 1, repr(command)
    assert command.err.count("Its worker is ended now") == warnings
    assert ("bolt 'bolt', task 0, has been in execute(" in command.err) is (warnings > 0)
    assert "the worker process of bolt 'bolt', task 0, ended" in command.err
    assert "java.io.EOFException" not in command.err


@pytest.mark.thorough
def test_a_process_that_a_bolt_forked_is_ended_and_its_copy_has_no_effect(start: StartCommand, directory: Path) -> None:
    for file in range(1, FILES):
        (directory / "in" / f"{file}.txt").unlink()
    (directory / "in" / "0.txt").write_text("one line\n")
    command = start("alone/one_file.py:forking", "--until-empty")
    assert command.end() == 0, repr(command)
    ended = re.findall(r"bolt 'bolt', task 0: a process that it forked left (\w+) and is ended", command.err)
    assert sorted(ended) == ["execute", "pre_commit", "pre_prepare"]
    with closing(SqliteStateProvider(f"{directory}/anchorbolt-data/state").open("one-bolt:bolt-0")) as storage:
        assert storage.count() == 1


@pytest.mark.thorough
def test_a_second_sigint_leaves_at_once_and_nothing_stays_behind(start: StartCommand, directory: Path) -> None:
    command = start("alone/one_file.py:hanging")
    wait_until(lambda: (directory / "hanging").exists(), "the wave hangs")
    command.send_to_group(signal.SIGINT)
    command.wait_for("stopping after the current wave")
    assert command.session()
    command.send_to_group(signal.SIGINT)
    assert command.end() == 130, repr(command)
    assert "left at once" in command.err
    assert "/anchorbolt/" not in command.err
    other_than_the_daemons = r'Traceback .*\n  File "(?!.*/pyspark/daemon\.py")'  # whose pipe Java has closed
    assert not re.search(other_than_the_daemons, command.err), repr(command)
    assert "KeyboardInterrupt" not in command.err
    wait_until(lambda: not command.session(), f"all processes gone: {command.session()}")


def test_a_bolt_that_raises_shows_its_own_traceback_and_fails_the_job(start: StartCommand, directory: Path) -> None:
    command = start("alone/one_file.py:raising", "--until-empty", "--set", "topology.max.batch.retries=0")
    assert command.end() == 1, repr(command)
    # PySpark's daemon may print one of its own when Spark gives up the tasks beside the one that failed, or only the
    # first lines of one, as Spark ends it.
    [shown] = re.findall(r'Traceback .*\n  File "[^"\n]*one_file\.py"[\s\S]*?\n\n.*', command.err)
    assert 'raise ValueError("no such word: "' in shown
    assert "ValueError: no such word: word" in shown
    assert "'bolt'" in shown
    assert "/anchorbolt/" not in shown, "no traceback of ours"
    assert "failed:" in command.out


@pytest.mark.thorough
def test_the_example_runs_under_spark_submit(tmp_path: Path) -> None:
    spark = Path(pyspark.__file__).parent
    example = ROOT / "examples" / "word_count"
    arguments = [str(spark / "bin" / "spark-submit"), "--master", "local[2]", str(example / "job.py")]
    words = expected(example)
    with closing(Command(arguments, directory=tmp_path, env={"SPARK_HOME": str(spark)})) as command:
        wait_until(lambda: counted(tmp_path) == words or not command.session(), f"all words from {command!r}")
        assert counted(tmp_path) == words, repr(command)


def test_a_machine_without_java_gives_its_exit_code_and_is_left_as_it_was(start: StartCommand, directory: Path) -> None:
    before = sorted(directory.iterdir())
    command = start("alone/one_file.py:raising", env={"JAVA_HOME": "", "PATH": str(directory)})
    assert command.end() == 3, repr(command)
    assert command.err.startswith("Spark needs Java 17 or 21")
    assert command.out == ""
    assert sorted(directory.iterdir()) == before


def test_a_password_shows_up_nowhere(start: StartCommand, directory: Path, start_redis: StartRedis) -> None:
    password = "correct-horse-battery"
    server = start_redis(password=password)
    (directory / "redis.yaml").write_text(
        "topology.state.provider: redis\n"
        "topology.state.provider.config:\n"
        f"  jedisPoolConfig: {{host: {server.host}, port: {server.port}, passwordEnv: STATE_PASSWORD}}\n"
    )
    arguments = ("project/jobs/word_count.py:topology", "--conf", "redis.yaml", "--verbose")
    command = start(*arguments, env={"STATE_PASSWORD": password})
    command.wait_for("wave ", times=2)
    assert "org.apache.spark.deploy.SparkSubmit" in command.command_lines()
    assert password not in command.command_lines()
    command.send(signal.SIGTERM)
    assert command.end() == 0, repr(command)
    assert counted(directory).total() > 0
    assert f"{server.host}:{server.port}" in command.out
    assert password not in command.out + command.err
    refused = start(*arguments, env={"STATE_PASSWORD": "wrong-horse"})
    assert (refused.end(), refused.out) == (2, ""), repr(refused)
    assert "refused the login" in refused.err
    assert f"{server.host}:{server.port}" in refused.err
    assert "wrong-horse" not in refused.err


@pytest.mark.thorough
def test_as_json_java_workers_and_the_run_itself_write_events_alone_and_no_password(
    start: StartCommand, start_redis: StartRedis
) -> None:
    canary = "canary-6f1d"
    server = start_redis(password=canary)
    pool = f"{{host: {server.host}, port: {server.port}, passwordEnv: AB_SECRET}}"
    settings = ["topology.state.provider=redis", f"topology.state.provider.config.jedisPoolConfig={pool}"]
    settings.append("topology.max.batch.retries=0")
    options = [part for setting in settings for part in ("--set", setting)]
    arguments = ["alone/one_file.py:talking", "--until-empty", "--verbose", "--log-format", "json", *options]
    command = start(*arguments, env={"AB_SECRET": canary})
    assert command.end() == 1, repr(command)
    events = [json.loads(line) for line in command.err.splitlines()]
    assert command.out == ""
    assert {event["topology"] for event in events if event["logger"] == "anchorbolt.run"} == {"one-bolt"}
    logged = next(event for event in events if event["message"] == "logged by the bolt")
    assert {name: logged[name] for name in ("logger", "level", "component", "txid", "order")} == {
        "logger": "mine",
        "level": "WARNING",
        "component": "bolt",
        "txid": 0,
        "order": 7,
    }
    assert any((event["logger"], event["message"]) == ("stderr", "printed by the bolt") for event in events)
    assert any(" WARN " in event["message"] for event in events if event["logger"] == "stderr"), "Spark's own log"
    failed = next(event for event in events if event.get("error") == "BoltError")
    assert (failed["component"], "no such word" in failed["traceback"]) == ("bolt", True)
    assert canary not in command.err
