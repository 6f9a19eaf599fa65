"""Random sequences of runs of one topology, with crashes; spouts, a bolt, ackers, dead letters, parallelism change.

Whatever a run does not have or does not know stays as it is: in the end each message has counted once.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from typer.testing import CliRunner

from anchorbolt.cli.main import app
from anchorbolt.errors import TopologyError
from anchorbolt.faults.points import PointReached, observe
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.testing import FaultPoint, FeederSpout, LocalCluster
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import Fields, RichBolt, StatefulBolt

SPOUTS = ("first", "second")
POINTS = [
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.DECISION_COPIED,
    FaultPoint.NAMESPACES_COMMITTED,
    FaultPoint.COMMITTED,
    FaultPoint.WAVE_ENDED,
]


class Killed(BaseException):
    """Not caught by anything that handles a failure, as a kill is not."""


class Broker:
    """The messages of all spouts, which outlive the runs."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[str]] = {name: [] for name in SPOUTS}
        self.is_poisoned = True  # whether words that begin with "bad" fail


BROKERS: list[Broker] = []


class Source(Fields, BaseRichSpout):
    fields = ("word",)

    stable_message_ids = True

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, conf: Any, context: Any, collector: Any) -> None:
        self.collector, self.mine = collector, context.this_task_index
        self.tasks = len(context.component_tasks[self.name])
        self.emitted: set[str] = set()

    def next_tuple(self) -> None:
        for number, message in enumerate(list(BROKERS[0].waiting[self.name])):
            if message not in self.emitted and number % self.tasks == self.mine:
                self.emitted.add(message)
                self.collector.emit((message,), message)
                return

    def ack(self, msg_id: Any) -> None:
        if msg_id in BROKERS[0].waiting[self.name]:
            BROKERS[0].waiting[self.name].remove(msg_id)

    def fail(self, msg_id: Any) -> None:
        self.emitted.discard(msg_id)


class Checks(RichBolt):
    fields = ("word",)

    def execute(self, tup: Any) -> None:
        if tup["word"].startswith("bad") and BROKERS[0].is_poisoned:
            raise ValueError(tup["word"])
        self.collector.emit((tup["word"],), anchors=tup)
        self.collector.ack(tup)


class Count(StatefulBolt):
    """Counts words; keeps the handle of a word that begins with "keep" until a "release" comes."""

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.state.put(word, self.state.get(word, 0) + 1)
        kept = self.state.get("handles", [])
        if word.startswith("keep"):
            self.state.put("handles", [*kept, tup.handle])
            return
        if word.startswith("release"):
            for handle in kept:
                self.collector.ack(handle)
            self.state.put("handles", [])
        self.collector.ack(tup)


class Also(StatefulBolt):
    """Counts words too, in the runs that have it."""


class Runs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        BROKERS[:] = [Broker()]
        self.folder = Path(tempfile.mkdtemp(prefix="anchorbolt-runs-"))
        self.cluster = LocalCluster()
        self.sent: list[str] = []

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            shutil.rmtree(self.folder)

    @initialize(heals=st.booleans())
    def begin(self, heals: bool) -> None:
        for kind in ("bad", "keep"):
            self.send("first", kind)
        self.run_once(list(SPOUTS), (1, 1), 1, "dead", None, also=True)
        BROKERS[0].is_poisoned = not heals

    @rule(spout=st.sampled_from(SPOUTS), kind=st.sampled_from(["plain", "plain", "keep", "release", "bad"]))
    def send(self, spout: str, kind: str) -> None:
        message = f"{kind}{len(self.sent)}"
        self.sent.append(message)
        BROKERS[0].waiting[spout].append(message)

    @rule(
        spouts=st.lists(st.sampled_from(SPOUTS), unique=True),
        parallelism=st.tuples(st.integers(1, 3), st.integers(1, 3)),
        ackers=st.sampled_from([None, 0, 1, 2]),
        letters=st.sampled_from(["dead", "dead", "other", ""]),
        also=st.booleans(),
        replays=st.booleans(),
        dies=st.none() | st.tuples(st.sampled_from(POINTS), st.integers(1, 2)),
    )
    def run(
        self,
        spouts: list[str],
        parallelism: tuple[int, int],
        ackers: int | None,
        letters: str,
        also: bool,
        replays: bool,
        dies: Any,
    ) -> None:
        if spouts:
            self.send(spouts[0], "plain")  # so that something is decided
        if replays and letters and not BROKERS[0].is_poisoned:
            self.replay(letters)
        waiting = [word for name in spouts for word in BROKERS[0].waiting[name]]
        if BROKERS[0].is_poisoned and any(word.startswith("bad") for word in waiting) and (ackers == 0 or not letters):
            return  # it would fail for good
        self.run_once(spouts, parallelism, ackers, letters, dies, also=also)

    def run_once(
        self, spouts: Any, parallelism: tuple[int, int], ackers: int | None, letters: str, dies: Any, *, also: bool
    ) -> Any:
        conf = {
            "topology.state.checkpoint.interval.ms": 100,
            "topology.message.timeout.secs": 1,  # so long a stop waits for what is in flight
            "topology.enable.message.timeouts": False,
            "topology.max.tuple.retries": 0,
            "topology.checkpoint.location": str(self.folder / "place"),
            "topology.dead.letter": str(self.folder / letters) if letters else None,
            "topology.acker.executors": ackers,
            "topology.state.accept.loss": not also and ackers != 0 and bool(spouts),  # of the state of `also` only
        }
        left = dies[1] if dies else 0

        def strike(place: PointReached) -> None:
            nonlocal left
            if dies and place.point is dies[0]:
                left -= 1
                if left == 0:
                    raise Killed

        before = observe(strike)
        try:
            handle = self.cluster.submit(topology(spouts, *parallelism, also=also), conf, until_empty=False)
            settled(handle, spouts, self.folder / letters / "replay" if letters else None)
            handle.stop()
            handle.await_termination(60)
        except TopologyError:  # there are messages in flight, and no ackers
            assert ackers == 0 or not spouts
        except Killed:
            pass
        else:
            return handle
        finally:
            observe(before)
        return None

    def replay(self, place: str) -> None:
        if list((self.folder / place).glob("*.jsonl")):
            shown = CliRunner().invoke(app, ["dead-letters", "replay", str(self.folder / place)])
            assert shown.exit_code == 0, shown.output

    @rule()
    def heal(self) -> None:
        BROKERS[0].is_poisoned = False

    def finish(self) -> None:
        """Process everything, and check that each message has counted once."""
        self.heal()
        for place in ("other", "dead"):
            self.run_once(SPOUTS, (1, 1), 1, place, None, also=False)
            self.replay(place)
        self.send("first", "release")
        for place in ("other", "dead"):
            handle = self.run_once(SPOUTS, (1, 1), 1, place, None, also=True)
        assert set(handle.state("also").values()) == {1}  # whatever has counted there while it was there, has once
        counts = {word: count for word, count in handle.state("count").items() if word not in ("handles", "feeder")}
        assert counts == dict.fromkeys(self.sent, 1)
        assert BROKERS[0].waiting == {name: [] for name in SPOUTS}


def topology(spouts: list[str], tasks: int, checks: int, *, also: bool) -> Topology:
    builder = TopologyBuilder()
    bolt = builder.set_bolt("checks", Checks(), checks)
    for name in spouts:
        builder.set_spout(name, Source(name), tasks)
        bolt.shuffle_grouping(name)
    if not spouts:
        builder.set_spout("feeder", FeederSpout(["word"], [[("feeder",)]]))
        bolt.shuffle_grouping("feeder")
    builder.set_bolt("count", Count()).global_grouping("checks")
    if also:
        builder.set_bolt("also", Also()).global_grouping("checks")
    return builder.create_topology("changing")


def settled(handle: Any, spouts: list[str], replay: Path | None) -> None:
    """Wait until the spouts have only messages that a bolt keeps, and no letters wait; or until the run has died."""
    deadline = time.monotonic() + 30
    while handle.failure is None:
        assert time.monotonic() < deadline
        waiting = [word for name in spouts for word in BROKERS[0].waiting[name]]
        letters = list(replay.glob("*.jsonl")) if replay is not None else []
        if (handle.reports or spouts) and all(word.startswith("keep") for word in waiting) and not letters:
            return
        time.sleep(0.005)


TestRuns = pytest.mark.slow(pytest.mark.thorough(pytest.mark.timeout(600)(Runs.TestCase)))
TestRuns.settings = settings(max_examples=25, stateful_step_count=6, deadline=None)
