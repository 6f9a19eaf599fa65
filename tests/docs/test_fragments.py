"""Fragments of pages, which no reader saves as a file, do what their pages say."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt, ParquetSink
from anchorbolt.testing import FeederSpout, LocalCluster, TupleCapture
from anchorbolt.topology import TopologyBuilder
from anchorbolt.transactional import Committer, MemoryTransactionalSpout, TransactionalTopologyBuilder
from tests.docs.pages import Page
from tests.engine.jobs import word_count


def fragment(page: str, part: str, **given: Any) -> SimpleNamespace:
    """Execute the block of a page that has this part, and return what it defines."""
    [block] = [block for block in Page(page).blocks if block.language == "python" and part in block.text]
    exec(compile(block.text, page, "exec"), given)
    return SimpleNamespace(**given)


def test_the_serializer_of_money_reads_what_it_wrote() -> None:
    page = fragment("docs/serializers.md", "class MoneySerializer", __name__="money")
    price = page.Money(5, "EUR")
    assert page.MoneySerializer().loads(page.MoneySerializer().dumps(price)) == price


def test_the_bolt_with_schema_versions_reads_values_of_both_older_versions() -> None:
    visits = fragment("docs/serializers.md", "state_schema_version = 3").Visits()
    newer = {"count": 7, "last": None}
    assert visits.upcast("page", visits.upcast("page", 7, 1), 2) == newer


def test_the_provider_has_a_state_of_its_own_for_one_component_only() -> None:
    page = fragment("docs/custom_state.md", "class SketchProvider", SketchState=lambda *where: where)
    provider = page.SketchProvider("localhost", 6379)
    of = SimpleNamespace
    assert provider.new_state("n", of(this_component_id="visitors")) == ("localhost", 6379, "n")
    assert provider.new_state("n", of(this_component_id="other")) is None


def test_what_an_attempt_state_needs_can_be_imported() -> None:
    assert fragment("docs/custom_state.md", "import AttemptState").AttemptState


def test_the_bolts_that_concepts_calls_chained_are_chained() -> None:
    class Words(BaseBasicBolt):
        def execute(self, tup: Any, collector: Any) -> None:
            raise NotImplementedError

        def declare_output_fields(self, declarer: Any) -> None:
            declarer.declare("word")

    builder = TopologyBuilder()
    builder.set_spout("lines", FeederSpout(["line"]))
    given = {"builder": builder, "ParquetSink": ParquetSink, **dict.fromkeys(("Split", "Clean", "Count"), Words)}
    fragment("docs/concepts.md", "# chained to split", **given)
    assert builder.create_topology("t").chained == {"clean": "split", "out": "count"}


def test_the_source_and_the_sink_for_kafka_make_a_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTS_PASSWORD", "p")
    builder = TopologyBuilder()
    builder.set_spout("clicks", fragment("docs/kafka.md", "def clicks(spark)").spout)
    sink = fragment("docs/kafka.md", "sink = KafkaSink(").sink
    builder.set_bolt("out", sink).global_grouping("clicks")
    assert set(builder.create_topology("kafka").components) == {"clicks", "out"}


def test_the_transactional_spout_for_kafka_makes_a_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKS_JAAS", "j")
    spout = fragment("docs/transactional_reference.md", "spout = KafkaTransactionalSpout(").spout
    builder = TransactionalTopologyBuilder("t", "clicks", spout)
    builder.set_bolt("out", TupleCapture()).global_grouping("clicks")
    assert set(builder.build_topology().components) == {"clicks", "out"}


def test_the_transactional_spout_over_files_makes_a_topology() -> None:
    spout = fragment("docs/transactional_reference.md", "spout = FilesTransactionalSpout(").spout
    builder = TransactionalTopologyBuilder("t", "lines", spout, parallelism=2)
    builder.set_bolt("out", TupleCapture()).global_grouping("lines")
    assert set(builder.build_topology().components) == {"lines", "out"}


def test_the_stateful_committer_counts() -> None:
    page = fragment(
        "docs/transactional_reference.md", "class CountInState", BaseStatefulBolt=BaseStatefulBolt, Committer=Committer
    )
    spout = MemoryTransactionalSpout({0: [(2,), (3,)]}, ["count"], 1)
    builder = TransactionalTopologyBuilder("t", "in", spout)
    builder.set_bolt("sum", page.CountInState()).global_grouping("in")
    handle = LocalCluster().submit(builder.build_topology())
    handle.await_termination()
    assert handle.state("sum") == {"count": 5}


def test_the_sink_with_some_declared_types_writes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    builder = TopologyBuilder()
    builder.set_spout("in", FeederSpout(["amount", "tags", "note"], [[(1, {"a": 1}, "x")]]))
    builder.set_bolt("out", fragment("docs/sinks.md", "schema=pa.schema").out).global_grouping("in")
    assert LocalCluster().submit(builder.create_topology("t")).await_termination(60)
    [row] = pq.read_table("out").to_pylist()
    assert row == {"amount": 1.0, "tags": [("a", 1)], "note": "x"}


def test_a_program_reads_the_state_of_a_word_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = FeederSpout(["sentence"], [[("apple pear apple",)]])
    conf = {"topology.state.provider": "sqlite", "topology.state.provider.config": {"directory": "state"}}
    handle = LocalCluster().submit(word_count(words, name="word-count"), conf)
    assert handle.await_termination(60)
    fragment("docs/looking_into_state.md", "open_state(")
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["('count',)", "2", "{'apple': 2, 'pear': 1}"]
    assert sorted(shown[3:]) == ["apple 2", "pear 1"]
