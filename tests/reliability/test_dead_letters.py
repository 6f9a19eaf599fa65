"""Dead letters: tuples that fail for good are left out and recorded, and the run goes on."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.letters.writers import dead_letter_writer
from anchorbolt.config import load_conf
from anchorbolt.engine import SparkCluster
from anchorbolt.errors import BoltError, SinkUnavailable
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import FeederSpout, LocalCluster
from anchorbolt.topology import Topology, TopologyBuilder
from anchorbolt.util.retry import NO_RETRY
from tests.engine.jobs import chain, finished, kept_in
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, AllAtOnce, Count, QueueSpout, RichBolt, letters_in
from tests.servers.redis_server import RedisServer
from tests.support.stores import config_of


class Checks(RichBolt):
    """Passes on words; raises on "raise", fails "fail", and ends its process on "die"."""

    fields = ("word",)

    def execute(self, tup: Any) -> None:
        if tup["word"].startswith("raise"):
            raise ValueError(tup["word"])
        if tup["word"].startswith("die"):
            os._exit(1)
        if tup["word"].startswith("fail"):
            self.collector.fail(tup)
            return
        self.collector.emit((tup["word"],), anchors=tup)
        self.collector.ack(tup)


def checking(spout: Any) -> Topology:
    return chain("checking", {"in": spout, "checks": (Checks(), 2), "count": (Count(), 2, "word")})


@pytest.mark.parametrize("poison", ["raise", "fail"])
def test_a_message_that_fails_too_often_becomes_a_dead_letter_and_is_acked(poison: str, tmp_path: Path) -> None:
    words = ["a", f"{poison} 1", "b", "a", f"{poison} 2"]
    MESSAGES.extend((number, (word,)) for number, word in enumerate(words))
    conf = {"topology.dead.letter": str(tmp_path / "dead"), "topology.max.tuple.retries": 2}
    handle = finished(checking(QueueSpout("word")), conf)
    assert handle.state("count") == {"a": 2, "b": 1}
    assert sorted(ACKED) == list(range(5))
    assert sorted(FAILED) == [1, 1, 4, 4]
    letters = letters_in(tmp_path / "dead")
    assert sorted((each["values"], each["message_id"], each["tries"]) for each in letters) == [
        ([f"{poison} 1"], 1, 3),
        ([f"{poison} 2"], 4, 3),
    ]
    assert {(each["spout"], each["stream"], each["component"]) for each in letters} == {("in", "default", "checks")}
    assert all(("ValueError" if poison == "raise" else "collector.fail") in each["reason"] for each in letters)


def test_dead_letters_are_logged_and_counted_apart_from_acks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    MESSAGES.extend([(1, ("a",)), (2, ("fail",)), (3, ("b",))])
    conf = {"topology.dead.letter": str(tmp_path / "dead"), "topology.max.tuple.retries": 1}
    handle = finished(checking(QueueSpout("word")), conf)
    totals = {
        name: sum(sum(getattr(report, name).values()) for report in handle.reports)
        for name in ("messages_acked", "messages_failed", "dead_letters")
    }
    assert totals == {"messages_acked": 2, "messages_failed": 1, "dead_letters": 1}
    [line] = [
        each.getMessage() for each in caplog.records if each.name == "anchorbolt.checkpoint" and each.levelno > 20
    ]
    assert "message 2 of spout 'in'" in line
    assert "bolt 'checks'" in line


def test_a_message_that_times_out_too_often_is_left_out_when_it_comes_again(tmp_path: Path) -> None:
    class Forgets(Checks):
        def execute(self, tup: Any) -> None:
            if not tup["word"].startswith("forget"):
                super().execute(tup)

    MESSAGES.extend([(1, ("forget",)), (2, ("a",))])
    conf = {
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.max.tuple.retries": 1,
        "topology.message.timeout.secs": 1,
        "topology.state.checkpoint.interval.ms": 100,
    }
    finished(chain("forgets", {"in": QueueSpout("word"), "forgets": Forgets()}), conf)
    assert (sorted(ACKED), FAILED) == ([1, 2], [1, 1])
    [letter] = letters_in(tmp_path / "dead")
    assert (letter["values"], letter["component"], letter["tries"]) == (["forget"], "", 2)
    assert "timed out" in letter["reason"]


def test_a_row_of_a_stream_spout_on_which_a_bolt_raises_becomes_a_dead_letter(tmp_path: Path) -> None:
    batches = [[("a",), ("raise 1",), ("b",)], [("raise 2",), ("a",), ("raise 3",)]]
    conf = {"topology.dead.letter": str(tmp_path / "dead")}
    handle = finished(checking(FeederSpout(["word"], batches)), conf)
    assert handle.state("count") == {"a": 2, "b": 1}
    letters = letters_in(tmp_path / "dead")
    assert sorted(each["values"] for each in letters) == [["raise 1"], ["raise 2"], ["raise 3"]]
    assert all(each["component"] == "checks" and "ValueError" in each["reason"] for each in letters)
    assert [each["txid"] for each in letters] == [0, 1, 1]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_on_spark_rows_of_a_stream_and_messages_become_dead_letters_in_one_topology(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / "in" / f"{name}.txt").write_text("".join(f"{name}\n" * 10 + f"raise {name}\n"))
    MESSAGES.extend([(1, ("x",)), (2, ("raise x",)), (3, ("y",))])
    builder = TopologyBuilder()
    builder.set_spout("lines", StreamSpout(lambda session: session.readStream.text(str(tmp_path / "in")), ["word"]))
    builder.set_spout("in", QueueSpout("word"))
    builder.set_bolt("checks", Checks(), parallelism=2).shuffle_grouping("in").shuffle_grouping("lines")
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("checks", "word")
    conf = {
        **kept_in(tmp_path),
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.max.tuple.retries": 0,
        "topology.state.checkpoint.interval.ms": 100,
    }
    handle = SparkCluster(spark).submit(builder.create_topology("mixed"), conf, until_empty=True)
    assert handle.await_termination(120)
    assert handle.state("count") == {"a": 10, "b": 10, "c": 10, "x": 1, "y": 1}
    letters = letters_in(tmp_path / "dead")
    assert sorted((each["spout"], each["values"][0]) for each in letters) == [
        ("in", "raise x"),
        *(("lines", f"raise {name}") for name in "abc"),
    ]
    assert sorted(ACKED) == [1, 2, 3]


@pytest.mark.parametrize("spout", ["feeder", "rich"])
def test_more_than_the_most_dead_letters_in_a_wave_end_the_run_as_before(spout: str, tmp_path: Path) -> None:
    words = [(f"raise {number}",) for number in range(5)]
    MESSAGES.extend(enumerate(words))
    conf = {
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.dead.letter.max.per.wave": 2,
        "topology.max.tuple.retries": 0,
    }
    source: Any = FeederSpout(["word"], [words]) if spout == "feeder" else AllAtOnce("word")
    with pytest.raises(BoltError) as raised:
        finished(checking(source), conf)
    assert raised.value.component == "checks"
    assert letters_in(tmp_path / "dead") == []
    assert (ACKED, FAILED) == ([], [])


def test_messages_that_are_tried_again_do_not_count_for_the_most_dead_letters_of_a_wave(tmp_path: Path) -> None:
    words = list("abcde")
    MESSAGES.extend((word, (word,)) for word in words)
    conf = {"topology.dead.letter": str(tmp_path / "dead"), "topology.dead.letter.max.per.wave": 2}
    handle = finished(chain("again", {"in": AllAtOnce("word"), "checks": RaisesAtFirst()}), conf)
    assert sorted(ACKED) == words
    assert letters_in(tmp_path / "dead") == []
    # The round in which a bolt raised, the one that found all such tuples, and the one without them.
    assert handle.reports[0].rounds == 3


def test_a_wave_with_too_many_dead_letters_is_not_run_without_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [(f"raise {number}",) for number in range(5)]
    executed = tmp_path / "executed"

    class Notes(Checks):
        def execute(self, tup: Any) -> None:
            with executed.open("a") as file:
                file.write("x")
            super().execute(tup)

    conf = {
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.dead.letter.max.per.wave": 2,
        "topology.max.batch.retries": 1,
    }
    with pytest.raises(BoltError) as raised:
        finished(chain("many", {"in": FeederSpout(["word"], [rows]), "checks": Notes()}), conf)
    assert "raise 0" in (raised.value.tuple_text or "")
    assert any("topology.dead.letter.max.per.wave" in record.getMessage() for record in caplog.records)
    # The first row, then all of them in the round that isolates, then the first row again.
    assert executed.stat().st_size == 1 + len(rows) + 1


class RaisesAtFirst(Checks):
    """Raises, with a long text, on each message that comes for the first time."""

    def execute(self, tup: Any) -> None:
        if tup["word"] not in FAILED:
            raise ValueError("x" * 100_000)
        super().execute(tup)


def test_the_texts_of_many_failures_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = [f"word{number:02}" for number in range(20)]
    MESSAGES.extend((word, (word,)) for word in words)
    conf = {"topology.dead.letter": str(tmp_path / "dead"), "topology.dead.letter.max.per.wave": 2}
    finished(chain("again", {"in": AllAtOnce("word"), "checks": RaisesAtFirst()}), conf)
    assert (sorted(ACKED), sorted(FAILED)) == (words, words)
    texts = [record.getMessage() for record in caplog.records if " of spout 'in' failed" in record.getMessage()]
    assert len(texts) == len(words)
    assert all("ValueError: xxx" in text for text in texts)
    assert 0 < sum("Traceback" in text for text in texts) < len(texts), "not more than 2 in a wave"
    assert max(map(len, texts)) < 70_000


def test_a_function_gets_the_dead_letters_and_is_called_again_if_it_raised(tmp_path: Path) -> None:
    calls: list[tuple[int, list[Any]]] = []

    def keep(letters: Any, txid: int) -> None:
        calls.append((txid, [letter.values for letter in letters]))
        if len(calls) == 1:
            raise ConnectionError("away")

    conf: Mapping[str, Any] = {"topology.dead.letter": keep}
    cluster, spout = LocalCluster(), FeederSpout(["word"], [[("a",), ("raise",)]])
    with pytest.raises(BoltError):
        finished(checking(spout), conf, cluster=cluster)
    handle = finished(checking(spout), conf, cluster=cluster)
    assert handle.state("count") == {"a": 1}
    assert calls == [(0, [("raise",)])] * 2


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("source", ["stream", pytest.param("rich", marks=pytest.mark.thorough)])
def test_tuples_that_end_their_worker_are_found_by_halves(source: str, spark: Any, tmp_path: Path) -> None:
    words = [f"{word}{number}" for number in range(50) for word in ("a", "b")]
    poison = ["die 1", "die 2", "raise"]
    for place, word in zip((33, 90, 60), poison, strict=True):
        words.insert(place, word)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "words.txt").write_text("\n".join(words))
    MESSAGES.extend((number, (word,)) for number, word in enumerate(words))
    spout: Any = AllAtOnce("word")
    if source == "stream":
        spout = StreamSpout(lambda session: session.readStream.text(str(tmp_path / "in")), ["word"])
    conf = {
        **kept_in(tmp_path),
        "topology.dead.letter": str(tmp_path / "dead"),
        "topology.state.checkpoint.interval.ms": 100,
    }
    handle = SparkCluster(spark).submit(checking(spout), conf, until_empty=True)
    assert handle.await_termination(200)
    assert handle.state("count") == {word: 1 for word in words if word not in poison}
    letters = letters_in(tmp_path / "dead")
    assert sorted((letter["spout"], letter["values"]) for letter in letters) == [("in", [word]) for word in poison]
    assert sorted(ACKED) == ([] if source == "stream" else list(range(len(words))))


class NeedsAll(RichBolt):
    """Fails messages that begin with "all" if it has not got ten others before."""

    def execute(self, tup: Any) -> None:
        self.others = getattr(self, "others", 0) + (not tup["word"].startswith("all"))
        if tup["word"].startswith("all") and self.others < 10:
            self.collector.fail(tup)
        else:
            self.collector.ack(tup)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_what_fails_without_the_other_half_of_a_wave_is_no_dead_letter(spark: Any, tmp_path: Path) -> None:
    words = [*(f"word{number}" for number in range(10)), "die", *(f"all{number}" for number in range(10))]
    MESSAGES.extend(enumerate((word,) for word in words))
    builder = TopologyBuilder()
    builder.set_spout("in", AllAtOnce("word"))
    builder.set_bolt("checks", Checks()).shuffle_grouping("in")
    builder.set_bolt("count", Count()).fields_grouping("checks", "word")
    builder.set_bolt("needs", NeedsAll()).shuffle_grouping("in")
    conf = {**kept_in(tmp_path), "topology.dead.letter": str(tmp_path / "dead"), "topology.max.tuple.retries": 0}
    handle = SparkCluster(spark).submit(builder.create_topology("needs"), conf, until_empty=True)
    assert handle.await_termination(200)
    assert [letter["values"] for letter in letters_in(tmp_path / "dead")] == [["die"]]
    assert handle.state("count") == {word: 1 for word in words if word != "die"}


def test_a_redis_stream_gets_each_dead_letter_once(redis_server: RedisServer) -> None:
    key = f"dead-{uuid4().hex}"
    conf = {"topology.dead.letter": f"redis-stream:{key}", "topology.state.provider.config": config_of(redis_server)}
    batches = [[("a",), ("raise 1",), ("raise 2",)], [("raise 3",)]]
    finished(checking(FeederSpout(["word"], batches)), conf)
    with redis.Redis(port=redis_server.port) as client:
        entries: Any = client.xrange(key)
        letters = [DeadLetter.from_json(fields[b"letter"].decode()) for _, fields in entries]
        assert [(txid, letter.values) for txid, letter in letters] == [
            (0, ("raise 1",)),
            (0, ("raise 2",)),
            (1, ("raise 3",)),
        ]
        writer = dead_letter_writer(conf["topology.dead.letter"], load_conf(conf).settings.provider, NO_RETRY)
        assert writer is not None
        writer.write(1, [letters[2][1]])
        writer.write(0, [letter for _, letter in letters[:2]])
        assert client.xlen(key) == 3
        with pytest.raises(SinkUnavailable):
            writer.write(0, [letter for _, letter in letters])
