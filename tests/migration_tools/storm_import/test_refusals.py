"""State that is not taken: nothing is written then."""

from pathlib import Path
from typing import Any

import pytest

from anchorbolt.errors import AnchorboltError, ConfigError, MigrationRefused, StateCorrupted, StateError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.storm_import import import_storm_state
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.serialization.codecs import JsonCodec, JsonKeyCodec
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing import LocalCluster
from tests.engine.jobs import word_count
from tests.migration_tools.conftest import MSGPACK, conf_of
from tests.migration_tools.storm_data import Entries, integer, storm_1_2, string
from tests.migration_tools.storm_import.conftest import (
    COMMITTED,
    OPTIONS,
    SPOUT,
    WORD_COUNTS,
    Load,
    Storm,
    contents,
    imported,
    is_empty,
    merged,
    numbers,
    spout,
    txids,
)
from tests.support.storm_fixtures import Dump, dumps


def test_a_key_of_two_tasks_is_refused_with_both(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    topology.put(count_4=storm_1_2(numbers(four=4, two=2)))
    with pytest.raises(MigrationRefused, match=r"'two' .* count-3 .* count-4"):
        imported(storm, target)
    assert is_empty(target)


LIST = b"\x01\x00java.util.ArrayLis\xf4\x01\x01\x02\x02"  # of the int 1
POJO = b"\x01\x00com.acme.\xd8\x01\x02"


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({string("two"): POJO}, r"two.*com\.acme\.X|com\.acme\.X.*two"),
        ({POJO: integer(2)}, r"com\.acme\.X"),
        ({LIST: integer(2)}, r"\[1\]"),
    ],
)
def test_an_entry_that_cannot_be_kept_is_refused_before_anything_is_written(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider, entry: Entries, named: str
) -> None:
    topology.put(count_3=storm_1_2({**numbers(one=1), **entry}))
    with pytest.raises(MigrationRefused, match=named):
        imported(storm, target)
    assert list(target.namespaces()) == []


def test_a_value_that_the_configured_codec_cannot_encode_is_refused_with_its_key(
    storm: StateProvider, load: Load, target: SqliteStateProvider
) -> None:
    dump = WORD_COUNTS[0]
    load({"bytes-1": dump_of(dump).hashes["bytes-1"], "bytes-1$txid": txids(0, 0)})
    with pytest.raises(MigrationRefused, match="'v0"):
        imported(storm, target, components={"count": "bytes"}, codecs=Codecs(JsonKeyCodec(), JsonCodec()))
    assert list(target.namespaces()) == []
    imported(storm, target, components={"count": "bytes"})
    assert set(map(type, merged(target).values())) == {bytes}


def dump_of(word_count: Dump) -> Dump:
    """The larger dump of the same release."""
    return next(each for each in dumps() if each.name == word_count.name.removesuffix("-wordcount"))


def test_wrong_arguments_and_damaged_transactions_are_refused(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    def refuses(error: type[AnchorboltError], **options: Any) -> bool:
        with pytest.raises(error):
            imported(storm, target, **options)
        return is_empty(target)

    assert refuses(ConfigError, components={})
    assert refuses(ConfigError, parallelism={"counts": 2})
    assert refuses(ConfigError, parallelism={"count": 0})
    assert refuses(StateError, components={"count": "counts"})
    assert refuses(StateError, checkpoint_spout="$checkpointspout-9")
    assert refuses(StateCorrupted, checkpoint_spout="count-3")
    topology.load({"$checkpointspout-2": spout("COMMITTED", 9)})
    assert refuses(MigrationRefused)
    assert imported(storm, target, checkpoint_spout=SPOUT, dry_run=True).is_dry_run
    topology.put(count_4__txid={b"commit": b"4x"})
    assert refuses(StateCorrupted, checkpoint_spout=SPOUT)
    with pytest.raises(ConfigError):
        imported(target, storm)
    with pytest.raises(ConfigError):
        import_storm_state(storm, storm, "words", "", {"count": "count"}, OPTIONS, MSGPACK)


@pytest.mark.parametrize("more", [{"count_3": storm_1_2(numbers(one=2))}, {"spout": spout("COMMITTED", 3)}])
def test_other_state_at_the_target_is_refused(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider, more: dict[str, Any], tmp_path: Path
) -> None:
    imported(storm, target)
    before = contents(target)
    if "spout" in more:
        more |= {"count_3__txid": txids(3, 3), "count_4__txid": txids(3, 3)}
    topology.put(**more)
    with pytest.raises(MigrationRefused):
        imported(storm, target)
    assert contents(target) == before
    with pytest.raises(MigrationRefused):
        imported(storm, target, parallelism={"count": 3})


def test_state_that_a_run_has_continued_is_refused(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider, tmp_path: Path
) -> None:
    imported(storm, target)
    conf = {"topology.checkpoint.location": str(tmp_path / "place"), **conf_of(target)}
    words = FeederSpout(["sentence"], [[("one",)]])
    assert LocalCluster().submit(word_count(words, name="words"), conf).await_termination(60)
    with pytest.raises(MigrationRefused):
        imported(storm, target)
    assert merged(target) == {**COMMITTED, "one": 2}


def test_a_storm_that_writes_during_the_import_is_refused(
    storm: StateProvider, topology: Storm, target: SqliteStateProvider
) -> None:
    class Writes(Progress):
        steps = 0

        def begin(self, what: str, total: int | None) -> None:
            self.steps += 1
            if self.steps == 3:  # the second pass begins
                topology.put(count_4=storm_1_2(numbers(four=40, five=5)))

    with pytest.raises(MigrationRefused, match="changed during the import"):
        imported(storm, target, progress=Writes())
    assert is_empty(target)
    assert all(not head.attempts for head in read_topology(target, "words", "words").heads.values())
    imported(storm, target)
    assert merged(target) == {**COMMITTED, "four": 40}
