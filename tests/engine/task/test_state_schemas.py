"""A job whose values change their shape from one deployment to the next, with crashes in the midst of it."""

import logging
from typing import Any

import pytest

from anchorbolt.checkpoint.decision_log import STATE_KEY
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import BoltError, CodecMismatch, FaultInjected, TopologyError
from anchorbolt.serialization import unpack
from anchorbolt.serialization.codecs import untagged
from anchorbolt.streams import Tuple
from anchorbolt.testing import FaultPoint
from anchorbolt.topology import Topology
from tests.engine.conftest import Watch
from tests.engine.jobs import BEFORE_THE_DECISION, NO_RETRIES, StatefulBolt, Strikes, one_bolt, run, words
from tests.support.memory_store import contents_of
from tests.support.serializers import Money

CONFIG = "topology.state.provider.config"
NAMESPACES = ("schemas:count-0", "schemas:count-1")
RECORD = "schemas:$checkpointspout-0"


class Counts(StatefulBolt):
    """Version 1: a number by word."""

    def execute(self, tup: Tuple) -> None:
        self.state.put(tup["word"], self.counted(self.state.get(tup["word"])))

    def counted(self, before: Any) -> Any:
        return (before or 0) + 1


class CountsByName(Counts):
    """Version 2: the number has a name."""

    state_schema_version = 2

    def upcast(self, key: str, value: Any, version: int) -> Any:
        return {"count": value} if version == 1 else super().upcast(key, value, version)

    def counted(self, before: Any) -> Any:
        return {"count": (before["count"] if before else 0) + 1}


class CountsAndLength(CountsByName):
    """Version 3: the count and the word's length."""

    state_schema_version = 3

    def upcast(self, key: str, value: Any, version: int) -> Any:
        return [value["count"], len(key)] if version == 2 else super().upcast(key, value, version)

    def counted(self, before: Any) -> Any:
        return [before[0] + 1, before[1]] if before else [1, 0]


def topology(bolt: Counts, *batches: str) -> Topology:
    return one_bolt(bolt, words(*batches), 2, id="count", name="schemas")


def versions(cluster: LocalCluster) -> dict[str, int]:
    """The schema version of each word's value."""
    stored = contents_of(cluster)
    return {unpack(key): untagged(data)[0] for name in NAMESPACES for key, data in stored[name][1].items()}


def record(cluster: LocalCluster) -> dict[str, Any]:
    [data] = [data for key, data in contents_of(cluster)[RECORD][1].items() if unpack(key) == STATE_KEY]
    content: dict[str, Any] = unpack(data)
    return content


def test_values_are_upcast_when_they_are_read_and_rewritten_when_they_are_put() -> None:
    cluster = LocalCluster()
    assert run(cluster, topology(Counts(), "a b c b")).state("count") == {"a": 1, "b": 2, "c": 1}
    second = run(cluster, topology(CountsByName(), "b d"))
    assert second.state("count") == {name: {"count": n} for name, n in {"a": 1, "b": 3, "c": 1, "d": 1}.items()}
    assert versions(cluster) == {"a": 1, "b": 2, "c": 1, "d": 2}
    third = run(cluster, topology(CountsAndLength(), "c"))
    assert third.state("count") == {"a": [1, 1], "b": [3, 1], "c": [2, 1], "d": [1, 1]}
    assert versions(cluster) == {"a": 1, "b": 2, "c": 3, "d": 2}
    headers = {contents_of(cluster)[name][0].codec for name in NAMESPACES}
    assert headers == {"keys msgpack/2, values msgpack/1"}


def test_an_older_job_is_refused_and_nothing_is_written_not_even_a_fence() -> None:
    cluster = LocalCluster()
    run(cluster, topology(CountsAndLength(), "a"))
    before = contents_of(cluster)
    for older, version in ((Counts(), 1), (CountsByName(), 2)):
        with pytest.raises(CodecMismatch, match=f"'count' has state_schema_version {version}.* version 3"):
            cluster.submit(topology(older, "a"))
    assert contents_of(cluster) == before
    assert run(cluster, topology(CountsAndLength(), "a")).state("count") == {"a": [2, 0]}


def test_the_decision_record_names_the_later_versions_only() -> None:
    cluster = LocalCluster()
    run(cluster, topology(Counts(), "a"))
    assert record(cluster)["state_schemas"] == {}
    run(cluster, topology(CountsByName(), "a"))
    assert record(cluster)["state_schemas"] == {"count": 2}


POINTS = """
    TASK_EXECUTED SLICE_STAGED SEALED ROUND_ENDED
    DECIDED DECISION_COPIED NAMESPACE_COMMITTED NAMESPACES_COMMITTED COMMITTED
"""


@pytest.mark.parametrize("point", [FaultPoint[name] for name in POINTS.split()], ids=lambda point: point.value)
def test_a_crash_in_the_first_wave_of_an_upgrade_leaves_the_old_state_or_the_new_one(
    point: FaultPoint, watch: Watch
) -> None:
    cluster = LocalCluster()
    run(cluster, topology(Counts(), "a b"))
    watch(Strikes(point))
    with pytest.raises(FaultInjected):
        run(cluster, topology(CountsByName(), "b c", "a"), NO_RETRIES)
    rest = ["a"]
    if point in BEFORE_THE_DECISION:
        rest = ["b c", "a"]
        going_on = run(cluster, topology(Counts()))
        assert going_on.state("count") == {"a": 1, "b": 1}, "the old job may go on until the new one has decided"
    else:
        with pytest.raises(CodecMismatch, match="'count' has state_schema_version 1"):
            cluster.submit(topology(Counts()))
    upgraded = run(cluster, topology(CountsByName(), *rest))
    assert upgraded.state("count") == {"a": {"count": 2}, "b": {"count": 2}, "c": {"count": 1}}


class Unfinished(Counts):
    state_schema_version = 2


def test_an_upcast_that_is_missing_fails_the_wave_with_the_bolts_name_and_the_state_stays() -> None:
    cluster = LocalCluster()
    run(cluster, topology(Counts(), "a"))
    with pytest.raises(BoltError, match="Unfinished does not override upcast for schema version 1"):
        run(cluster, topology(Unfinished(), "a"), NO_RETRIES)
    assert run(cluster, topology(Counts(), "a")).state("count") == {"a": 2}


@pytest.mark.parametrize("version", [0, -1, True, "2", 2.0, None, 65_536])
def test_a_schema_version_that_is_none_is_refused_when_the_topology_is_made(version: Any) -> None:
    bolt = Counts()
    bolt.state_schema_version = version
    with pytest.raises(TopologyError, match=f"bolt 'count' has state_schema_version {version!r}"):
        topology(bolt)


class Sums(Counts):
    def counted(self, before: Any) -> Any:
        return before + 1 if before else Money(1)


def test_pickle_is_warned_of_once_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    conf = {CONFIG: {"valueSerializerClass": "pickle"}}
    with caplog.at_level(logging.WARNING, "anchorbolt"):
        handle = run(LocalCluster(), topology(Sums(), "a a", "a b"), conf)
    assert handle.state("count") == {"a": Money(3), "b": Money(1)}
    warnings = [line.getMessage() for line in caplog.records if "pickle" in line.getMessage()]
    assert len(warnings) == 1
    assert "can run code" in warnings[0]


@pytest.mark.parametrize("storm", [True, False])
def test_a_users_serializer_and_storms_default_are_chosen_by_name(storm: bool) -> None:
    conf = {CONFIG: {"valueSerializerClass": "tests.support.serializers.MoneySerializer"}}
    if storm:
        conf[CONFIG]["keySerializerClass"] = "org.apache.storm.state.DefaultStateSerializer"
    cluster = LocalCluster()
    assert run(cluster, topology(Sums(), "a a"), conf).state("count") == {"a": Money(2)}
    with pytest.raises(CodecMismatch, match="MoneySerializer/3"):
        cluster.submit(topology(Sums(), "a"))
    assert run(cluster, topology(Sums(), "a"), conf).state("count") == {"a": Money(3)}


def test_a_value_that_the_users_serializer_refuses_fails_the_wave_naming_namespace_key_and_class() -> None:
    conf = NO_RETRIES | {CONFIG: {"valueSerializerClass": "tests.support.serializers.MoneySerializer"}}
    with pytest.raises(BoltError) as caught:
        run(LocalCluster(), topology(Counts(), "a"), conf)
    for part in ("state 'schemas:count-", "key 'a'", "tests.support.serializers.MoneySerializer.dumps raised"):
        assert part in caught.value.message
