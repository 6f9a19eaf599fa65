"""Dead letters that are fed back in: from a directory or a Redis stream, and letters again if they fail again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
import redis
from typer.testing import CliRunner

from anchorbolt.bolts import FailedException
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.checkpoint.letters.letter_store import letter_store
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.cli.main import app
from anchorbolt.config import load_conf
from anchorbolt.engine import RunHandle, SparkCluster
from anchorbolt.engine.sources.driver_spouts import DriverSpouts
from anchorbolt.errors import ConfigError, SinkUnavailable
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import FeederSpout, LocalCluster
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import chain
from tests.reliability.jobs import MESSAGES, Count, QueueSpout, RichBolt, letters_in
from tests.servers.redis_server import RedisServer
from tests.support.stores import config_of, settings_of


class FailsWhile(RichBolt):
    """As long as a file exists, fails words that begin with "fail", "except" or "raise" in that way."""

    fields = ("word",)

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        if Path(self.conf["poisoned"]).exists():
            if word.startswith("fail"):
                self.collector.fail(tup)
                return
            if word.startswith("except"):
                raise FailedException(word)
            if word.startswith("raise"):
                raise ValueError(word)
        self.collector.emit((word,), anchors=tup)
        self.collector.ack(tup)


def run(cluster: Any, spout: Any, conf: Mapping[str, Any]) -> Mapping[Any, Any]:
    handle = cluster.submit(
        chain("replays", {"in": spout, "checks": (FailsWhile(), 2), "count": (Count(), 2, "word")}),
        conf,
        until_empty=True,
    )
    assert handle.await_termination(120)
    counts: Mapping[Any, Any] = handle.state("count")
    return counts


def configured(tmp_path: Path, dead: str, provider: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "poisoned": str(tmp_path / "poisoned"),
        "topology.dead.letter": dead,
        "topology.max.tuple.retries": 0,
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
        "topology.state.checkpoint.interval.ms": 100,
        **provider,
    }


def listed(*arguments: str) -> list[tuple[int, list[Any]]]:
    shown = CliRunner().invoke(app, ["dead-letters", "list", "--json", *arguments])
    assert shown.exit_code == 0
    return [(each["tries"], each["values"]) for each in map(json.loads, shown.output.splitlines())]


def replayed(*arguments: str) -> int:
    shown = CliRunner().invoke(app, ["dead-letters", "replay", "--json", *arguments])
    assert shown.exit_code == 0
    return int(json.loads(shown.output)["replayed"])


@pytest.mark.parametrize(
    ("word", "kind"), [("fail", "rich"), ("except", "rich"), ("raise", "rich"), ("raise", "feeder")]
)
def test_a_replayed_letter_that_fails_again_is_a_letter_again(word: str, kind: str, tmp_path: Path) -> None:
    dead = str(tmp_path / "dead")
    conf = configured(tmp_path, dead, settings_of(tmp_path / "state"))
    (tmp_path / "poisoned").touch()
    if kind == "feeder":
        spout: Any = FeederSpout(["word"], [[("raise",), ("a",)]])
    else:
        spout = QueueSpout("word")
        MESSAGES.extend([(1, (word,)), (2, ("a",))])
    assert run(LocalCluster(), spout, conf) == {"a": 1}
    for _ in range(2):
        assert [values for _, values in listed(dead)] == [[word]]
        assert replayed(dead) == 1
        assert listed(dead) == []
        assert run(LocalCluster(), spout, conf) == {"a": 1}
    assert listed(dead) == [(1, [word])]  # tried once since its replay
    (tmp_path / "poisoned").unlink()
    assert replayed(dead) == 1
    assert run(LocalCluster(), spout, conf) == {"a": 1, word: 1}
    assert listed(dead) == []


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.timeout(300)])])
def test_a_replay_feeds_dead_letters_back_in_once(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\nraise a\n")
    MESSAGES.extend([(1, ("b",)), (2, ("raise b",))])
    poisoned, dead = tmp_path / "poisoned", tmp_path / "dead"
    poisoned.touch()
    conf = configured(tmp_path, str(dead), settings_of(tmp_path / "state"))
    feeder = FeederSpout(["word"], [[("a",), ("raise a",)]])

    def run_both() -> RunHandle:
        builder = TopologyBuilder()
        builder.set_spout("in", QueueSpout("word"))
        files = StreamSpout(lambda session: session.readStream.text(str(tmp_path / "in")), ["word"])
        builder.set_spout("lines", feeder if engine == "local" else files)
        checks = builder.set_bolt("checks", FailsWhile(), parallelism=2)
        checks.shuffle_grouping("in").shuffle_grouping("lines")
        builder.set_bolt("count", Count(), parallelism=2).fields_grouping("checks", "word")
        cluster: Any = LocalCluster() if engine == "local" else SparkCluster(request.getfixturevalue("spark"))
        handle: RunHandle = cluster.submit(builder.create_topology("replay"), conf, until_empty=True)
        assert handle.await_termination(120)
        return handle

    assert run_both().state("count") == {"a": 1, "b": 1}
    assert sorted(each["values"] for each in letters_in(dead)) == [["raise a"], ["raise b"]]
    output = CliRunner().invoke(app, ["dead-letters", "list", str(dead), "--json"]).output
    shown = [json.loads(line) for line in output.splitlines()]
    assert sorted((each["spout"], each["values"]) for each in shown) == [("in", ["raise b"]), ("lines", ["raise a"])]
    poisoned.unlink()
    assert replayed(str(dead)) == 2
    assert letters_in(dead) == []
    waiting = CliRunner().invoke(app, ["dead-letters", "list", str(dead)])
    assert (waiting.stdout, "2 dead letters wait" in waiting.stderr) == ("", True)
    for _ in range(2):
        assert run_both().state("count") == {"a": 1, "b": 1, "raise a": 1, "raise b": 1}
    assert len(letters_in(dead / "replayed")) == 2
    assert letters_in(dead / "replay") == []


@pytest.mark.parametrize("between", ["no letters", "a function", "other letters"])
def test_letters_that_were_replayed_are_known_by_a_run_after_one_that_does_not_look_at_them(
    between: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead, cluster = str(tmp_path / "dead"), LocalCluster()
    conf = configured(tmp_path, dead, {})
    (tmp_path / "poisoned").touch()
    MESSAGES.extend([(1, ("raise",)), (2, ("a",))])
    run(cluster, QueueSpout("word"), conf)
    assert replayed(dead) == 1
    (tmp_path / "poisoned").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(LetterFolder, "finish", Mock(side_effect=SinkUnavailable("died behind the commit")))
        with pytest.raises(SinkUnavailable):
            run(cluster, QueueSpout("word"), conf)
    other: dict[str, Any] = {"no letters": None, "a function": print, "other letters": str(tmp_path / "other")}
    MESSAGES.append((3, ("b",)))
    run(cluster, QueueSpout("word"), {**conf, "topology.dead.letter": other[between]})
    MESSAGES.append((4, ("c",)))
    assert run(cluster, QueueSpout("word"), conf) == {"a": 1, "raise": 1, "b": 1, "c": 1}
    assert len(letters_in(tmp_path / "dead" / "replayed")) == 1


def test_letters_in_a_redis_stream_are_listed_and_replayed(redis_server: RedisServer, tmp_path: Path) -> None:
    key = f"dead-{uuid4().hex}"
    provider = settings_of(redis_server)
    dead = f"redis-stream:{key}"
    conf = configured(tmp_path, dead, provider)
    (tmp_path / "conf.json").write_text(json.dumps(provider))
    place = [dead, "--conf", str(tmp_path / "conf.json")]
    (tmp_path / "poisoned").touch()
    MESSAGES.extend([(1, ("raise 1",)), (2, ("a",)), (3, ("fail 1",)), (4, ("raise 2",))])
    before = run(LocalCluster(), QueueSpout("word"), conf)
    assert before == {"a": 1}
    assert sorted(values for _, values in listed(*place)) == [["fail 1"], ["raise 1"], ["raise 2"]]
    assert replayed(*place) == 3
    assert (listed(*place), replayed(*place)) == ([], 0)
    (tmp_path / "poisoned").unlink()
    for _ in range(2):
        assert run(LocalCluster(), QueueSpout("word"), conf) == {"a": 1, "fail 1": 1, "raise 1": 1, "raise 2": 1}
    with redis.Redis(port=redis_server.port) as client:
        assert client.hlen(f"{key}:replay") == 0
        kept = b"\n".join(client.hvals(f"{key}:replayed")).splitlines()  # type: ignore[arg-type]
        assert sorted(json.loads(line)["values"] for line in kept) == [["fail 1"], ["raise 1"], ["raise 2"]]


@pytest.mark.parametrize("kind", ["directory", "redis"])
def test_a_store_appends_and_replays_repeatably(kind: str, redis_server: RedisServer, tmp_path: Path) -> None:
    settings = load_conf({"topology.state.provider.config": config_of(redis_server)}).settings.provider
    place = str(tmp_path / "dead") if kind == "directory" else f"redis-stream:dead-{uuid4().hex}"
    store = letter_store(place, settings)
    assert store is not None
    for _ in range(2):
        store.append(5, ["x", "y"])
    store.append(7, [str(number) for number in range(2500)])
    five, seven = store.names()
    assert (store.read(five), store.read("nothing" if kind == "directory" else "6")) == (
        "x\ny" + "\n" * (kind == "directory"),
        None,
    )
    assert len((store.read(seven) or "").split()) == 2500
    store.replay([five])
    assert (store.names(), store.waiting()) == ([seven], [five])
    assert (store.read_waiting(five) or "").split() == ["x", "y"]
    for _ in range(2):
        store.finish(five)
    assert (store.names(), store.waiting(), store.read_waiting(five)) == ([seven], [], None)


def test_a_file_of_an_earlier_history_stays_beside_the_new_one(tmp_path: Path) -> None:
    store = letter_store(str(tmp_path), load_conf({}).settings.provider)
    assert store is not None
    for _ in range(2):
        store.append(5, ["old"])
        store.append(5, ["new"])
    assert [(store.read(name) or "").split() for name in store.names()] == [["old"], ["new"]]
    store.replay(store.names()[:1])
    store.append(5, ["again"])
    with pytest.raises(ConfigError):
        store.replay(store.names())


def test_an_entry_of_an_earlier_history_is_not_taken_for_a_new_one(redis_server: RedisServer) -> None:
    conf = {"topology.state.provider.config": config_of(redis_server)}
    store = letter_store(f"redis-stream:dead-{uuid4().hex}", load_conf(conf).settings.provider)
    assert store is not None
    store.append(5, ["old"])
    with pytest.raises(SinkUnavailable):
        store.append(5, ["new"])


def test_only_waves_without_a_batch_of_the_query_process_letters_again(tmp_path: Path) -> None:
    dead = str(tmp_path / "dead")
    conf = configured(tmp_path, dead, settings_of(tmp_path / "state"))
    (tmp_path / "poisoned").touch()
    MESSAGES.append((1, ("fail",)))
    run(LocalCluster(), QueueSpout("word"), conf)
    replayed(dead)
    plan = prepare_plan(
        chain("replays", {"in": QueueSpout("word"), "count": Count()}), conf, memory=MemoryStateProvider(), location=""
    )
    replays = DriverSpouts(plan).replays
    assert replays is not None
    record = DecisionRecord()
    assert replays.poll()
    of_the_query = Batch("query", 0)
    assert replays.next(record, of_the_query) is of_the_query
    assert (any(replays.known.values()), replays.poll()) == (False, True)
    replays.next(record, None)
    assert any(replays.known.values())


def test_a_directory_that_cannot_be_read_does_not_end_the_run(tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    dead.mkdir()
    (dead / "replay").write_text("in the way")
    MESSAGES.append((1, ("a",)))
    conf = configured(tmp_path, str(dead), settings_of(tmp_path / "state"))
    assert run(LocalCluster(), QueueSpout("word"), conf) == {"a": 1}
    assert CliRunner().invoke(app, ["dead-letters", "replay", str(dead)]).exit_code not in (0, None)
