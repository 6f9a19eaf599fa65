"""State of each release, converted to the format of each other one, in a real Redis."""

import itertools
from typing import Any

import pytest

from anchorbolt.errors import AnchorboltError, ConfigError, MigrationRefused, StateError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.conversion import Report
from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.base64_to_binary.conftest import Store, actions
from tests.migration_tools.storm_conversion.conftest import (
    SPOUT,
    STATES,
    UNREADABLE,
    WORD_COUNTS,
    Place,
    convert_next,
    converted,
    forms_of,
    load,
    originals,
    stated,
    states,
)

A, B, C, D, E = Generation
PAIRS = list(itertools.permutations(Generation, 2))
# Storm keeps state in HBase since 1.2.
CASES: list[Any] = [("redis", *pair) for pair in PAIRS]
CASES += [pytest.param("hbase", *pair, marks=pytest.mark.slow) for pair in itertools.permutations((C, D, E), 2)]
OF_EACH_PAIR = pytest.mark.parametrize(
    ("place", "source", "target"), CASES, indirect=["place"], ids=lambda each: getattr(each, "value", each)
)
DONE_BEFORE = {"in this format already, left alone", "converted by an earlier run, left alone"}
TASKS = ["count-3", "count-4", "types-8"]
# Kryo 5 does not write what was one object, so the way back makes two.
SHARED = {"shared-1"}
TOMBSTONES = {"prepared-1$prepare", "strandedtombstone-1"}


def by_config(names: list[str], source: Generation) -> list[tuple[dict[str, str], list[str]]]:
    """Group namespaces by the classes that were registered for them."""
    found: dict[str, tuple[dict[str, str], list[str]]] = {}
    for name in names:
        config = STATES[source].expected[name].get("provider_config", {})
        found.setdefault(str(config), (config, []))[1].append(name)
    return list(found.values())


@OF_EACH_PAIR
def test_each_namespace_is_read_back_as_it_is_stated_and_the_way_back_leads_to_the_same_bytes(
    place: Place, source: Generation, target: Generation
) -> None:
    dump = STATES[source]
    names = [name for name in dump.expected if name != UNREADABLE]
    load(place, dump, names)
    before = place.everything()
    for config, group in by_config(names, source):
        converted(place, group, target, config=config, in_topology=False)
    found, kept = states(place), originals(place)
    assert found.keys() == before.keys()
    for key, entries in before.items():
        if key.endswith("$txid"):
            assert found[key] == entries
        else:
            assert kept[key] == entries
            classes = dump.expected[key.removesuffix("$prepare")].get("provider_config")
            assert forms_of(found[key], target, classes) == stated(dump, key, target), key
    convert_next(place)
    for config, group in by_config(names, source):
        converted(place, group, source, config=config, in_topology=False)
    back = states(place)
    different = {key for key in before if back[key] != before[key]}
    assert different <= (SHARED if target is E else TOMBSTONES if target is A else set())


@OF_EACH_PAIR
def test_a_word_count_is_converted_by_its_components(place: Place, source: Generation, target: Generation) -> None:
    dump = WORD_COUNTS[source]
    load(place, dump, [*TASKS, SPOUT])
    before = place.everything()
    named: dict[str, Any] = {"components": ["count", "types"], "include_checkpoint_spout": True, "in_topology": True}
    planned = converted(place, [], target, dry_run=True, **named)
    assert set(actions(planned).values()) == {"would be converted"}
    assert place.everything() == before
    assert states(place) in ({}, before)  # in HBase there is no other table yet
    report = converted(place, [], target, source=source, **named)
    assert [each.namespace for each in report.namespaces] == [*TASKS, SPOUT]
    assert (report.error, report.warnings) == (None, ())
    found = states(place)
    assert found.keys() == before.keys()
    assert originals(place).items() >= {key: before[key] for key in before if not key.endswith("$txid")}.items()
    for key in found:
        if not key.endswith("$txid"):
            assert forms_of(found[key], target) == stated(dump, key, target), key
    again = converted(place, [], target, source=source, **named)
    assert set(actions(again).values()) <= DONE_BEFORE
    assert states(place) == found


def refused(error: type[AnchorboltError], store: Place, *names: str, target: Generation = E, **more: Any) -> str:
    """Return why a conversion is refused, after a check that it has changed nothing."""
    before, converted_before = store.everything(), states(store)
    with pytest.raises(error) as caught:
        converted(store, names, target, **more)
    assert (store.everything(), states(store)) == (before, converted_before)
    return caught.value.message


@OF_EACH_PAIR
def test_a_users_class_is_refused_with_its_namespace_and_key_before_anything_is_changed(
    place: Place, source: Generation, target: Generation
) -> None:
    load(place, STATES[source], ["integer-1", UNREADABLE, "long-1"])
    message = refused(MigrationRefused, place, "integer-1", UNREADABLE, "long-1", target=target)
    assert message.startswith("pojo-1: the entry with the key 'v0")
    assert "'anchorfix.Pojo'" in message


@pytest.mark.parametrize("source", [A, B, C])
def test_what_storm_2_numbers_by_its_place_is_refused_until_the_place_is_named(
    redis: Store, source: Generation
) -> None:
    load(redis, STATES[source], ["optional-1"])
    for target in (D, E):
        assert "--in-topology or --outside-topology" in refused(MigrationRefused, redis, "optional-1", target=target)
    found = set()
    for in_topology in (True, False):
        converted(redis, ["optional-1"], E, in_topology=in_topology)
        found.add(str(redis.get("optional-1")))
        redis.undo("optional-1", keep_changed=True)
        redis.router.unlink("optional-1_undone")
    assert len(found) == 2


@pytest.mark.parametrize("dump", [STATES, WORD_COUNTS])
def test_the_place_of_storm_2_is_that_of_the_source(redis: Store, dump: dict[Generation, Any]) -> None:
    name = "optional-1" if dump is STATES else "types-8"
    load(redis, dump[D], [name])
    converted(redis, [name], E)
    assert redis.get(name) == dump[E].hashes[name]


def test_wrong_names_and_formats_are_refused(place: Place) -> None:
    load(place, STATES[C], ["integer-1", "long-1"])
    place.put("text-1", {b"a": b"b"})
    assert "--from 1.2" in refused(MigrationRefused, place, "long-1", source=D)
    assert "--from 1.0, 1.1" in refused(MigrationRefused, place, "text-1")
    assert "cannot be converted" in refused(MigrationRefused, place, "text-1", source=C)
    assert "no namespace none-1" in refused(StateError, place, "none-1")
    assert "component 'none'" in refused(StateError, place, components=["none"])
    refused(ConfigError, place)
    refused(ConfigError, place, "long-1$prepare")


def test_another_backup_is_refused(redis: Store) -> None:
    load(redis, STATES[C], ["integer-1", "long-1"])
    redis.put("integer-1_old", {b"a": b"b"})
    assert "differs from integer-1" in refused(StateError, redis, "long-1", "integer-1")
    assert "is the backup of integer-1" in refused(StateError, redis, "integer-1_old")


def test_one_damaged_entry_is_refused_by_its_key(place: Place) -> None:
    load(place, STATES[C], ["string-1", "long-1"])
    [(field, value), *_] = STATES[C].hashes["string-1"].items()
    place.put("string-1", {field: value[:-1]})
    assert refused(MigrationRefused, place, "long-1", "string-1").startswith("string-1: the entry with the key 'v")


def test_a_warning_names_a_checkpoint_spout_that_was_not_named(place: Place) -> None:
    load(place, WORD_COUNTS[C], ["count-3", SPOUT])
    report = converted(place, ["count-3"], D)
    assert SPOUT in report.warnings[0]
    assert converted(place, [SPOUT], D).warnings == ()


def test_a_topology_that_writes_meanwhile_is_noticed_and_its_write_is_kept(store: Store) -> None:
    load(store, WORD_COUNTS[C], ["count-3", "count-4"])
    before = store.everything()
    new = {b"\x03\x01ne\xf7": next(iter(before["count-4"].values()))}

    class Writes(Progress):
        def begin(self, what: str, total: int | None) -> None:
            if what == "converting count-4":
                store.put("count-4", new)

    with pytest.raises(StateError, match="count-4"):
        converted(store, ["count-3", "count-4"], E, progress=Writes())
    left = store.everything()
    assert left["count-4"] == {**before["count-4"], **new}
    assert not any("$anchorbolt$" in key for key in left)
    if store.server is not None:  # a single server: one transaction
        assert left.keys() == before.keys()
        assert left["count-3"] == before["count-3"]
    converted(store, ["count-3", "count-4"], E)


def test_of_two_conversions_at_once_one_is_refused(store: Store) -> None:
    load(store, WORD_COUNTS[C], ["count-3", "count-4"])

    class Overtaken(Progress):
        left = 1

        def begin(self, what: str, total: int | None) -> None:
            if what == "converting count-4" and self.left:
                self.left = 0
                converted(store, ["count-3", "count-4"], D)

    with pytest.raises((StateError, MigrationRefused)):
        converted(store, ["count-3", "count-4"], E, source=C, progress=Overtaken())
    found = states(store)
    for key in ("count-3", "count-4", "count-4$prepare"):
        assert forms_of(found[key], D) == stated(WORD_COUNTS[C], key, D)
    assert not any("$anchorbolt$" in key for key in found)


def test_a_cluster_is_converted_after_all_of_it_was_checked(cluster: Store) -> None:
    dump = WORD_COUNTS[C]
    load(cluster, dump, [*TASKS, SPOUT])
    load(cluster, STATES[C], [UNREADABLE])
    assert "anchorfix.Pojo" in refused(MigrationRefused, cluster, *TASKS, UNREADABLE, in_topology=True)
    report: Report = converted(cluster, [*TASKS, SPOUT], E, in_topology=True)
    assert report.error is None
    found = states(cluster)
    for key in dump.hashes:
        if not key.endswith("$txid"):
            assert forms_of(found[key], E) == stated(dump, key, E), key
            assert cluster.get(f"{key}_old") == dump.hashes[key]
