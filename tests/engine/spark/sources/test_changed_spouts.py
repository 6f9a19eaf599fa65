"""A stream spout is added to a topology, or removed from it, and its checkpoint location stays what it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.engine.spark.sources import rows
from anchorbolt.engine.spark.sources.known import KnownSources, source_name
from anchorbolt.errors import AnchorboltError, BoltError, QueryChanged, TopologyError
from anchorbolt.files import open_folder
from anchorbolt.spouts import StreamSpout
from anchorbolt.streams import Tuple
from anchorbolt.topology import Topology, TopologyBuilder
from tests.engine.jobs import NO_RETRIES, StatefulBolt, kept_in, write_lines

needs_names = pytest.mark.skipif(not rows.CAN_NAME, reason="this Spark cannot name sources")


class Counts(StatefulBolt):
    """Counts words, and fails on the word that ends a file of this name."""

    def __init__(self, folder: Path) -> None:
        self.stop = folder / "stop"

    def execute(self, tup: Tuple) -> None:
        if self.stop.exists():
            raise ValueError("stopped")
        super().execute(tup)


def topology(folder: Path, spouts: Sequence[str], source: Any = None) -> Topology:
    builder = TopologyBuilder()
    counts = builder.set_bolt("counts", Counts(folder))
    for spout in spouts:
        place = str(folder / spout)
        read = source or (lambda spark, place=place: spark.readStream.text(place))
        builder.set_spout(spout, StreamSpout(read, ["word"]))
        counts.fields_grouping(spout, "word")
    return builder.create_topology("changing")


def counted(spark: SparkSession, folder: Path, *spouts: str, **more: Any) -> dict[Any, Any]:
    """Run the topology with these spouts until their sources are empty; return the counts."""
    conf = NO_RETRIES | kept_in(folder)
    handle = SparkCluster(spark).submit(topology(folder, spouts, **more), conf, until_empty=True)
    assert handle.await_termination(240)
    return handle.state("counts")


def give(folder: Path, number: int, *spouts: str) -> None:
    """Give each spout's source a file with one word, such as `a1`."""
    for spout in spouts:
        source = write_lines(folder / spout, [])
        (source / f"{number}.txt").write_text(f"{spout}{number}\n")


def positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have sources known by their positions only, as before Spark 4.2."""
    monkeypatch.setattr(rows, "CAN_NAME", False)


@needs_names
def test_spouts_are_added_removed_and_reordered_without_a_new_location(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path, 1, "a.x", "b_y", "c")
    words = dict.fromkeys(["a.x1", "b_y1"], 1)
    assert counted(spark, tmp_path, "a.x", "b_y") == words
    give(tmp_path, 2, "a.x", "b_y")
    words |= dict.fromkeys(["a.x2", "b_y2", "c1"], 1)
    assert counted(spark, tmp_path, "c", "b_y", "a.x") == words
    # A batch that was begun is run again without the spout that was removed meanwhile.
    give(tmp_path, 3, "b_y", "c")
    (tmp_path / "stop").touch()
    with pytest.raises(BoltError):
        counted(spark, tmp_path, "c", "b_y", "a.x")
    (tmp_path / "stop").unlink()
    give(tmp_path, 4, "a.x", "b_y", "c")
    words |= dict.fromkeys(["b_y3", "a.x4", "b_y4"], 1)
    assert counted(spark, tmp_path, "a.x", "b_y") == words
    with pytest.raises(QueryChanged) as caught:
        counted(spark, tmp_path, "a.x", "b_y", "c")
    assert "'c'" in caught.value.message
    assert counted(spark, tmp_path, "a.x", "b_y") == words


@needs_names
def test_a_spout_is_refused_after_its_interrupted_batch_was_run_without_it(spark: SparkSession, tmp_path: Path) -> None:
    give(tmp_path, 1, "b")
    write_lines(tmp_path / "a", [])
    (tmp_path / "stop").touch()
    with pytest.raises(BoltError):
        counted(spark, tmp_path, "a", "b")
    (tmp_path / "stop").unlink()
    assert counted(spark, tmp_path, "a") == {}  # Spark runs the batch again, now without a row
    with pytest.raises(QueryChanged) as caught:
        counted(spark, tmp_path, "a", "b")
    assert "'b' before" in caught.value.message


@needs_names
def test_a_location_without_names_goes_on_and_tells_what_was_changed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(tmp_path, 1, "a", "b")
    with monkeypatch.context() as older:
        positions(older)
        assert counted(spark, tmp_path, "a", "b") == {"a1": 1, "b1": 1}
    give(tmp_path, 2, "a", "b")
    assert counted(spark, tmp_path, "a", "b") == {"a1": 1, "b1": 1, "a2": 1, "b2": 1}
    for spouts, told in (
        (["a"], "Removed: 'b'"),
        (["b", "a"], "'a', 'b', and is 'b', 'a'"),
        (["a", "x"], "Added: 'x'"),
    ):
        with pytest.raises(QueryChanged) as caught:
            counted(spark, tmp_path, *spouts)
        assert told in caught.value.message
    (tmp_path / "checkpoint" / "anchorbolt" / "spouts.json").unlink()  # as before there was such a file
    with pytest.raises(QueryChanged, match=r"2 sources.* has 1 now"):
        counted(spark, tmp_path, "a")


@needs_names
def test_a_location_with_names_is_refused_by_a_spark_without_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(tmp_path, 1, "a")
    counted(spark, tmp_path, "a")
    positions(monkeypatch)
    with pytest.raises(QueryChanged):
        counted(spark, tmp_path, "a")


@needs_names
def test_a_source_function_may_read_several_sources_but_only_by_the_session_that_it_gets(
    spark: SparkSession, tmp_path: Path
) -> None:
    give(tmp_path, 1, "a", "b")

    def both(session: SparkSession) -> DataFrame:
        return session.readStream.text(str(tmp_path / "a")).union(session.readStream.text(str(tmp_path / "b")))

    assert counted(spark, tmp_path, "a", source=both) == {"a1": 1, "b1": 1}
    assert {path.name for path in (tmp_path / "checkpoint" / "sources").iterdir()} == {"a", "a_n2"}

    def unnamed(session: SparkSession) -> DataFrame:
        return SparkSession(session.sparkContext, session._jsparkSession).readStream.text(str(tmp_path / "a"))

    with pytest.raises(TopologyError) as caught:
        counted(spark, tmp_path, "a", source=unnamed)
    assert caught.value.component == "a"


def test_different_spouts_have_different_sources() -> None:
    spouts = ["a", "A", "a_", "a__", "a.", "a-", "a_2e", "a_n2", "a2", "a_2", "_", "."]
    names = [source_name(spout, number) for spout in spouts for number in (1, 2, 12)]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "a").isalnum() and name.isascii() for name in names)
    assert source_name("orders") == "orders"


def known(folder: Path, *spouts: str, can_name: bool = True) -> KnownSources:
    return KnownSources(open_folder(str(folder)), spouts, can_name=can_name)


def refused(folder: Path, *spouts: str) -> AnchorboltError | None:
    try:
        known(folder, *spouts).check()
    except QueryChanged as error:
        return error
    return None


def test_a_removed_spout_is_refused_as_long_as_its_position_is_gone(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    offsets = tmp_path / "offsets" / "9"
    known(tmp_path, "a", "b").record()  # before there are offsets, nothing is known of the sources
    known(tmp_path, "a").record()
    offsets.write_text("v2\n{}\na:7\nb_2ey:-")
    assert refused(tmp_path, "a", "b") is None
    known(tmp_path, "a", "b.y").record()
    known(tmp_path, "a").record()
    assert refused(tmp_path, "a", "b.y") is None, "no batch was begun without it"
    (tmp_path / "offsets" / "10").write_text("v2\n{}\na:8")
    assert refused(tmp_path, "a", "b.y") is not None
    known(tmp_path, "a", "c").record()
    assert refused(tmp_path, "a", "b.y") is not None
    (tmp_path / "anchorbolt" / "spouts.json").write_text("torn")
    assert refused(tmp_path, "a", "b.y") is None
