"""A savepoint has the positions of a streaming query: what is restored or forked reads on where it was."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.files import open_folder
from anchorbolt.migration_tools.savepoints.restoring import restore_savepoint
from anchorbolt.migration_tools.savepoints.stored import Savepoint
from anchorbolt.migration_tools.savepoints.taking import take_savepoint
from anchorbolt.spouts import StreamSpout
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.topology import TopologyBuilder
from tests.engine.jobs import StatefulBolt
from tests.engine.spark.conftest import spark as spark
from tests.migration_tools.conftest import MSGPACK, conf_of


@pytest.mark.slow
def test_the_files_that_were_counted_are_not_read_again(name: str, tmp_path: Path, spark: SparkSession) -> None:
    source = tmp_path / "in"
    source.mkdir()

    def count(topology: str, provider: SqliteStateProvider, place: Path, tasks: int) -> dict[Any, Any]:
        builder = TopologyBuilder()
        builder.set_spout("in", StreamSpout(lambda spark: spark.readStream.text(str(source)), ["word"]))
        builder.set_bolt("count", StatefulBolt(), tasks).fields_grouping("in", "word")
        settings = {"topology.checkpoint.location": str(place), **conf_of(provider)}
        handle = SparkCluster(spark).submit(builder.create_topology(topology), settings, until_empty=True)
        assert handle.await_termination(120)
        return dict(handle.state_items("count"))

    def add(file: str, words: str) -> None:
        (source / file).write_text("\n".join(words.split()))

    provider, other = SqliteStateProvider(str(tmp_path / "state")), SqliteStateProvider(str(tmp_path / "other"))
    kept = open_folder(str(tmp_path / "savepoints"))
    add("a.txt", "a b a")
    count(name, provider, tmp_path / "place", 2)
    add("b.txt", "b c")
    assert count(name, provider, tmp_path / "place", 2) == Counter("abacb")
    manifest = take_savepoint(provider, name, name, open_folder(str(tmp_path / "place")), kept, "one")
    assert manifest.batch_id >= 1
    add("c.txt", "c d")
    expected = count(name, provider, tmp_path / "place", 2)
    assert expected == Counter("abacbcd")
    for topology, store, tasks in ((name, other, 3), (f"{name}-fork", provider, 2)):
        savepoint = Savepoint.read(kept, "one").as_topology(topology, topology)
        place = tmp_path / f"place-of-{topology}"
        restore_savepoint(savepoint, store, open_folder(str(place)), MSGPACK, parallelism={"count": tasks})
        assert count(topology, store, place, tasks) == expected
        assert count(topology, store, place, tasks) == expected
    assert count(name, provider, tmp_path / "place", 2) == expected
