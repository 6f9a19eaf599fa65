"""A row of a stream spout with text that is not UTF-8."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anchorbolt.engine import SparkCluster
from anchorbolt.errors import UnsupportedValue
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import LocalCluster
from anchorbolt.topology import Topology
from tests.engine.jobs import StatefulBolt, chain, kept_in
from tests.reliability.jobs import letters_in


@pytest.fixture
def topology(tmp_path: Path) -> Topology:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.txt").write_bytes(b"tea\ntea\n")
    (folder / "bad [1].txt").write_bytes(b"milk\ncaf\xe9\ntea\n")
    return chain(
        "undecoded",
        {
            "lines": StreamSpout(lambda spark: spark.readStream.text(str(folder), recursiveFileLookup=True), ["line"]),
            "count": (StatefulBolt(), 2, "line"),
        },
    )


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    return LocalCluster() if request.param == "local" else SparkCluster(spark)


def conf_in(folder: Path) -> dict[str, Any]:
    return kept_in(folder)


def test_the_row_is_a_dead_letter(engine: Any, topology: Topology, tmp_path: Path) -> None:
    handle = engine.submit(
        topology, conf_in(tmp_path) | {"topology.dead.letter": str(tmp_path / "dead")}, until_empty=True
    )
    assert handle.await_termination(120)
    assert set(handle.state("count")) == {"tea", "milk"}
    [letter] = letters_in(tmp_path / "dead")
    assert (letter["spout"], letter["component"]) == ("lines", "lines")
    assert "not UTF-8" in letter["reason"]


def test_without_dead_letters_the_spout_the_field_and_the_file_are_named(
    engine: Any, topology: Topology, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedValue) as raised:
        engine.submit(
            topology, conf_in(tmp_path) | {"topology.max.batch.retries": 0}, until_empty=True
        ).await_termination(120)
    for named in ("'lines'", "'line'", "caf\\xe9", "bad [1].txt"):
        assert named in raised.value.message
    assert "good.txt" not in raised.value.message
