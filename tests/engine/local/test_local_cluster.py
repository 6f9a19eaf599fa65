"""The local engine computes what plain Python computes, and its waves are transactions."""

import logging
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorbolt.bolts import OutputCollector, ParquetSink
from anchorbolt.checkpoint.coordinator import CheckpointCoordinator
from anchorbolt.engine import LocalCluster, RunHandle, RunStatus
from anchorbolt.errors import BoltError, TopologyError, UnsupportedValue
from anchorbolt.state_backends import KeyValueState
from anchorbolt.streams import TopologyContext, Tuple
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import (
    NO_RETRIES,
    CountWords,
    RichBolt,
    StatefulBolt,
    diamond,
    diamond_result,
    feeder,
    one_bolt,
    run,
    word_count,
    words,
)

sentences = st.lists(
    st.lists(st.sampled_from(["a", "be", "sea", "deer", "eagle", "anchor", "bolt"]), max_size=8).map(" ".join),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(
    first=st.lists(sentences, max_size=4),
    second=st.lists(sentences, max_size=4),
    parallelism=st.lists(st.integers(1, 4), min_size=5, max_size=5),
    seed=st.integers(0, 2**32),
)
def test_a_diamond_of_two_spouts_and_two_stateful_bolts_equals_plain_python(
    first: list[list[str]], second: list[list[str]], parallelism: list[int], seed: int
) -> None:
    topology = diamond(feeder(*first), feeder(*second), parallelism=parallelism)
    handle = run(LocalCluster(seed=seed), topology)
    counts, totals = diamond_result(sentence for batch in [*first, *second] for sentence in batch)
    assert handle.state("count") == counts
    assert handle.state("total") == totals
    assert [report.txid for report in handle.reports] == list(range(max(len(first), len(second))))


@settings(max_examples=20, deadline=None)
@given(batches=st.lists(sentences, max_size=5), cache=st.integers(1, 3), pending=st.integers(1, 3))
def test_state_larger_than_the_memory_it_may_use_is_staged_in_slices_and_comes_out_equal(
    batches: list[list[str]], cache: int, pending: int
) -> None:
    conf = {"topology.state.cache.max.entries": cache, "topology.state.pending.max.entries": pending}
    handle = run(LocalCluster(), word_count(feeder(*batches)), conf)
    assert handle.state("count") == Counter(word for batch in batches for line in batch for word in line.split())


def test_a_wave_report_counts_tuples_bytes_and_keys() -> None:
    handle = run(LocalCluster(), word_count(feeder("a b a", "a c")))
    first, second = handle.reports
    assert first.tuples_in == {"sentences": 1, "split": 1, "count": 3}
    assert first.tuples_out == {"sentences": 1, "split": 3, "count": 3}
    assert (first.keys_read, first.keys_staged) == (2, 2)
    assert (second.keys_read, second.keys_staged) == (1, 2), "the key a was still in the cache"
    assert first.bytes_shuffled > 0
    assert first.total_ms >= first.checkpoint_ms >= 0


def test_a_topology_submitted_again_goes_on_with_its_state() -> None:
    cluster = LocalCluster()
    run(cluster, word_count(feeder("a b")))
    handle = run(cluster, word_count(feeder("a c")))
    assert handle.state("count") == {"a": 2, "b": 1, "c": 1}
    assert (handle.recovery.generation, handle.recovery.txid, handle.recovery.action) == (2, 0, "resumed")


def test_a_listener_may_stop_the_run() -> None:
    spout = feeder()
    handle = LocalCluster().submit(word_count(spout), until_empty=False, on_wave=lambda _: handle.stop() and None)
    spout.feed([("a",)])
    assert handle.await_termination(30)
    assert (handle.status, handle.state("count")) == (RunStatus.STOPPED, {"a": 1})


class FailsOn(RichBolt):
    """Raises on a word, so many times, or exits, or fails its tuple."""

    attempts: Counter[str] = Counter()  # noqa: RUF012 - shared by the instances of a test, although each is unpickled

    def __init__(self, name: str, word: str, times: int, how: str = "raise") -> None:
        self.name, self.word, self.times, self.how = name, word, times, how

    def execute(self, tup: Tuple) -> None:
        if tup["word"] == self.word and self.attempts[self.name] < self.times:
            self.attempts[self.name] += 1
            if self.how == "raise":
                raise ValueError(f"poisoned by {self.word}")
            if self.how == "exit":
                sys.exit(1)
            self.collector.fail(tup)


@pytest.mark.parametrize("how", ["raise", "exit", "fail"])
def test_a_wave_that_fails_is_rolled_back_and_tried_again_with_one_effect(
    tmp_path: Path, request: pytest.FixtureRequest, how: str
) -> None:
    bolt = FailsOn(request.node.name, "b", 2, how)
    handle = run(LocalCluster(), word_count(feeder("a", "a b a", "c"), bolt, ParquetSink(str(tmp_path))))
    assert handle.state("count") == {"a": 3, "b": 1, "c": 1}
    assert [report.rounds for report in handle.reports] == [1, 3, 1]
    rows = sorted((row["word"], row["count"]) for row in pq.read_table(tmp_path).to_pylist())
    assert rows == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]


def test_a_poisoned_tuple_stops_the_run_with_the_users_traceback_first_and_the_state_as_before() -> None:
    cluster, topology = LocalCluster(), word_count(feeder("a", "b"), FailsOn("poison", "b", 99))
    handle = cluster.submit(topology)
    with pytest.raises(BoltError) as caught:
        handle.await_termination(60)
    error = caught.value
    assert error.message.startswith("Traceback (most recent call last)")
    assert "ValueError: poisoned by b" in error.message
    assert "anchorbolt/engine" not in error.message
    assert (error.component, error.task_index) == ("sink0", 0)
    assert error.tuple_text is not None
    assert "word='b'" in error.tuple_text
    assert FailsOn.attempts["poison"] == 4, "once, and topology.max.batch.retries times more"
    assert handle.status is RunStatus.FAILED
    assert handle.state("count") == {"a": 1}
    FailsOn.attempts["poison"] = 99
    assert run(cluster, topology).state("count") == {"a": 1, "b": 1}


class Unanchored(RichBolt):
    fields = ("word",)

    def execute(self, tup: Tuple) -> None:
        self.collector.emit((tup[0],))


@pytest.mark.parametrize("stateful", [True, False])
def test_an_unanchored_emit_is_an_error_in_a_stateful_topology_only(stateful: bool) -> None:
    builder = TopologyBuilder()
    builder.set_spout("words", words("a"))
    builder.set_bolt("plain", Unanchored()).shuffle_grouping("words")
    if stateful:
        builder.set_bolt("count", CountWords()).fields_grouping("plain", "word")
    with pytest.raises(BoltError, match="anchors=tup") if stateful else nullcontext():
        run(LocalCluster(), builder.create_topology("unanchored"))


class Puts(StatefulBolt):
    """Puts these entries for each tuple."""

    def __init__(self, *entries: tuple[Any, Any]) -> None:
        self.entries = entries

    def execute(self, tup: Tuple) -> None:
        for key, value in self.entries:
            self.state.put(key, value)


def submit_puts(*entries: tuple[Any, Any]) -> RunHandle:
    return LocalCluster().submit(one_bolt(Puts(*entries), words("a")), NO_RETRIES)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (("key", {"deep": [object]}), "type builtins.type is not supported"),
        ((["a"], 1), "a key must not be mutable"),
        ((("a", ["b"]), 1), "a key must not be mutable"),
        (("\ud800", 1), "surrogates not allowed"),
        (("key", "\ud800"), "surrogates not allowed"),
    ],
)
def test_an_unsupported_key_or_value_is_refused_in_put_and_changes_nothing(entry: Any, says: str) -> None:
    handle = submit_puts(("seen", "a"), entry)
    with pytest.raises(BoltError, match=says) as caught:
        handle.await_termination(60)
    assert UnsupportedValue.__name__ in caught.value.message
    assert handle.state("bolt") == {}


class Recorder(StatefulBolt):
    """Records every call of a hook."""

    calls: list[Any] = []  # noqa: RUF012 - shared by the instances of a test, although each is unpickled
    fail_once: set[str] = set()  # noqa: RUF012 - likewise

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        self.calls.append("prepare")

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.calls.append(("init_state", dict(state.items()) if self.calls[-1] != "prepare" else None))
        self.state = state

    def execute(self, tup: Tuple) -> None:
        self.calls.append(("execute", tup["word"], self.state.get("at prepare")))
        self.state.put(tup["word"], 1)
        if tup["word"] in self.fail_once:
            self.fail_once.remove(tup["word"])
            raise RuntimeError("once")

    def pre_prepare(self, txid: int) -> None:
        self.calls.append(("pre_prepare", txid))
        self.state.put("at prepare", txid)

    def pre_commit(self, txid: int) -> None:
        assert self.state.get(f"not in memory before {txid}") is None
        self.calls.append(("pre_commit", txid))

    def pre_rollback(self) -> None:
        self.calls.append("pre_rollback")

    def cleanup(self) -> None:
        assert self.state.get("not in memory") is None
        self.calls.append("cleanup")


def test_the_hooks_of_a_stateful_bolt_come_in_the_documented_order() -> None:
    Recorder.calls.clear()
    Recorder.fail_once.add("b")
    handle = run(LocalCluster(), one_bolt(Recorder(), words("a", "b", "c")))
    first_wave = ["prepare", ("init_state", None), ("execute", "a", None), ("pre_prepare", 0), ("pre_commit", 0)]
    failed = [("execute", "b", 0), "pre_rollback", "cleanup"]
    again = ["prepare", ("init_state", None), ("execute", "b", 0), ("pre_prepare", 1), ("pre_commit", 1)]
    next_wave = [("execute", "c", 1), ("pre_prepare", 2), ("pre_commit", 2), "cleanup"]
    assert Recorder.calls == first_wave + failed + again + next_wave
    assert handle.state("bolt") == {"a": 1, "b": 1, "c": 1, "at prepare": 2}


def test_the_parquet_sink_refuses_a_directory_that_another_run_wrote_to(tmp_path: Path) -> None:
    run(LocalCluster(), word_count(feeder("a"), ParquetSink(str(tmp_path))))
    handle = LocalCluster().submit(word_count(feeder("b"), ParquetSink(str(tmp_path))))
    with pytest.raises(TopologyError, match="Use an empty directory"):
        handle.await_termination(60)
    assert handle.state("count") == {}
    assert pq.read_table(tmp_path).to_pylist() == [{"word": "a", "count": 1}]


def test_await_termination_returns_although_cleaning_up_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(CheckpointCoordinator, "close", Mock(side_effect=TypeError("a fault of ours")))
    with caplog.at_level(logging.WARNING, "anchorbolt.engine"):
        assert run(LocalCluster(), word_count(feeder("to be"))).status is RunStatus.FINISHED
    assert "a fault of ours" in caplog.text
