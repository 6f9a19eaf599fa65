"""The migration on a real Redis and a real Redis Cluster: its results, and the hashes that it leaves alone."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anchorbolt.migration_tools.base64_to_binary import Content, Report, Wrapper
from tests.migration_tools.base64_to_binary.conftest import Store, actions, refusal
from tests.migration_tools.base64_to_binary.listening import Once
from tests.migration_tools.storm_data import Entries, one_line, plain, storm_1_0, storm_1_1, storm_1_2, words
from tests.support.storm_fixtures import Dump, dump, dumps

BASE64 = [each for each in dumps() if each.storm[:3] in ("1.0", "1.1")]


def load(store: Store, dump: Dump) -> list[str]:
    """Put a dump's hashes into a Redis, and return the namespaces but for the checkpoint spout's."""
    for key, entries in dump.hashes.items():
        store.put(key, entries)
    names = {key.removesuffix("$txid").removesuffix("$prepare") for key in dump.hashes}
    return sorted(name for name in names if not name.startswith("$"))


def written_by_1_2(of: Dump) -> dict[str, dict[bytes, bytes]]:
    """What 1.2.4 wrote for the same values: but for what 1.0 cannot do, which is to delete."""
    same = next(
        each for each in dumps() if each.name == of.name.replace(of.storm, "1.2.4") and each.shared == of.shared
    )
    return {
        key: entries
        for key, entries in same.hashes.items()
        if key in of.hashes and not (of.storm == "1.0.3" and key == "prepared-1$prepare")
    }


@pytest.mark.parametrize("dump", BASE64, ids=str)
def test_what_storm_1_0_and_1_1_wrote_becomes_byte_for_byte_what_1_2_4_writes(redis: Store, dump: Dump) -> None:
    namespaces = load(redis, dump)
    report = redis.migrate(*namespaces, include_checkpoint_spout=True)
    assert report.error is None
    expected = written_by_1_2(dump)
    assert len(expected) >= 8
    assert {key: redis.get(key) for key in expected} == expected


def test_both_hashes_are_converted_and_kept_and_the_txids_stay(store: Store) -> None:
    count = dump("storm-1.1.0-wordcount").hashes
    for key in ("count-4", "count-4$prepare", "count-4$txid"):
        store.put(key, count[key])
    report = store.migrate("count-4")
    assert actions(report) == {"count-4$prepare": "converted", "count-4": "converted"}
    migrated = dump("storm-1.2.4-wordcount").hashes
    assert store.everything() == {
        "count-4": migrated["count-4"],
        "count-4_old": count["count-4"],
        "count-4$prepare": migrated["count-4$prepare"],
        "count-4$prepare_old": count["count-4$prepare"],
        "count-4$txid": count["count-4$txid"],
    }


def test_a_second_run_changes_nothing_with_the_backup_or_without(store: Store) -> None:
    for wrapper in Wrapper:
        store.put(f"words-{wrapper.value}", storm_1_0(words(30)))
        store.migrate(f"words-{wrapper.value}", wrapper=wrapper)
    before = store.everything()
    names = [f"words-{wrapper.value}" for wrapper in Wrapper]
    assert set(actions(store.migrate(*names)).values()) == {"converted by an earlier run, left alone"}
    assert store.everything() == before
    assert store.discard(*names).error is None
    before = store.everything()
    assert set(actions(store.migrate(*names)).values()) == {"binary already, left alone"}
    assert before == {"words-storm-1.2": storm_1_2(words(30)), "words-keep": words(30)}
    assert store.everything() == before


def test_a_state_that_went_on_after_its_migration_is_left_alone(store: Store) -> None:
    store.put("words-1", storm_1_1(words(30)))
    store.put("words-1$prepare", storm_1_1(words(3)))
    store.migrate("words-1")
    store.put("words-1", storm_1_2(words(40)))
    store.router.delete("words-1$prepare")
    before = store.everything()
    assert actions(store.migrate("words-1")) == {"words-1": "binary already, left alone"}
    assert store.everything() == before


def test_data_in_the_wrapper_of_1_1_is_left_alone_with_a_note_that_nobody_reads_it(redis: Store) -> None:
    redis.put("words-1", plain(storm_1_1(words(3))))
    (namespace,) = redis.migrate("words-1").namespaces
    assert "no later Storm reads" in namespace.hashes[0].note


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(store: Store) -> None:
    store.put("words-1", storm_1_1(words(3_000)))
    before = store.everything()
    report = store.migrate("words-1", dry_run=True)
    assert actions(report) == {"words-1": "would be converted"}
    assert report.namespaces[0].hashes[0].entries == 3_000
    assert store.everything() == before


@pytest.mark.slow
def test_large_hashes_of_many_pages_and_large_values_are_converted_whole(store: Store) -> None:
    long = {key: value + b"\0" * 40_000 for key, value in words(200, first=30_000).items()}
    store.put("words-1", storm_1_0({**words(30_000), **long}))
    assert store.migrate("words-1").error is None
    assert store.get("words-1") == storm_1_2({**words(30_000), **long})
    assert store.get("words-1_old") == storm_1_0({**words(30_000), **long})


@given(
    st.dictionaries(st.binary(max_size=120), st.binary(max_size=120), min_size=1, max_size=8),
    st.sampled_from([storm_1_0, storm_1_1]),
    st.sampled_from(list(Wrapper)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_content_makes_the_way_there_and_back(
    redis: Store, entries: Entries, written: type, wrapper: Wrapper
) -> None:
    redis.router.flushall()
    redis.put("words-1", written(entries))
    content = Content.STORM_1_0 if written is storm_1_0 else Content.STORM_1_1
    assert redis.migrate("words-1", content=content, wrapper=wrapper).error is None
    converted = storm_1_2(entries) if wrapper is Wrapper.STORM_1_2 else plain(written(entries))
    assert redis.everything() == {"words-1": converted, "words-1_old": written(entries)}
    assert redis.undo("words-1").error is None
    assert redis.everything() == {"words-1": written(entries)}


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (b"YW-_", b"Ag==", "field 'YW-_' is not Base64: '-' at position 2 is of the URL-safe alphabet"),
        (b"YWI", b"Ag==", "field 'YWI' is not Base64: 3 characters are not a multiple of 4"),
        (b"AwFi4Q==", b"Ag", "the value of field 'AwFi4Q==' is not Base64: 2 characters"),
        (b"AwFi4Q==", b"\xff\0", "the value of field 'AwFi4Q==' is not Base64: byte 0xff"),
        ("é".encode(), b"Ag==", "is not Base64: byte 0xc3"),
        (b"A" * 80 + b"\n", b"Ag==", "a line break is elsewhere"),
    ],
)
@pytest.mark.parametrize("part", ["", "$prepare"])
def test_one_bad_entry_stops_the_namespace_and_names_the_field(
    store: Store, part: str, field: bytes, value: bytes, reason: str
) -> None:
    store.put("words-1", storm_1_0(words(2_000)))
    store.put("words-1$prepare", storm_1_0(words(10)))
    store.put("words-2", storm_1_0(words(10)))
    store.put(f"words-1{part}", {field: value})
    before = store.everything()
    report = store.migrate("words-1", "words-2", "words-1")
    assert [each.namespace for each in report.namespaces] == ["words-1", "words-2"]
    assert reason in refusal(report)
    assert f"words-1{part} " in refusal(report)
    assert actions(report) == {"words-2": "converted"}
    del before["words-2"]
    assert {key: entries for key, entries in store.everything().items() if "-2" not in key} == before


def test_a_field_that_is_there_in_two_forms_is_refused(store: Store) -> None:
    text = one_line(b"\x03\x01" + b"long" * 20 + b"\xe1")
    forms = [text, text[:76] + b"\n" + text[76:]]
    for values in ((b"\x02\x00", b"\x02\x00"), (b"\x02\x00", b"\x02\x02")):
        twice = dict(zip(forms, map(one_line, values), strict=True))
        store.put("words-1", {**storm_1_0(words(100)), **twice})
        before = store.everything()
        assert "two of its fields decode to the same" in refusal(store.migrate("words-1"))
        assert store.everything() == before


def test_what_may_be_either_is_refused_until_the_user_says_what_it_is(redis: Store) -> None:
    redis.put("words-1", {b"abcd": b"AAAA"})
    message = refusal(redis.migrate("words-1"))
    assert "--format storm-1.0, storm-1.1 or binary" in message
    assert actions(redis.migrate("words-1", content=Content.BINARY)) == {"words-1": "binary already, left alone"}
    assert redis.everything() == {"words-1": {b"abcd": b"AAAA"}}
    assert redis.migrate("words-1", content=Content.STORM_1_0, wrapper=Wrapper.KEEP).error is None
    assert redis.get("words-1") == {b"i\xb7\x1d": b"\0\0\0"}


def test_a_backup_of_something_else_is_never_overwritten(store: Store) -> None:
    store.put("words-1", storm_1_1(words(30)))
    store.put("words-1_old", storm_1_1(words(31)))
    before = store.everything()
    assert "is not overwritten" in refusal(store.migrate("words-1"))
    assert store.everything() == before


def test_a_backup_that_is_named_as_a_namespace_is_not_converted(store: Store) -> None:
    store.put("words-1", storm_1_1(words(30)))
    report = store.migrate("words-1", "words-1_old")
    assert actions(report) == {"words-1": "converted"}
    assert "words-1_old is the backup of words-1" in refusal(report)
    assert store.everything() == {"words-1": storm_1_2(words(30)), "words-1_old": storm_1_1(words(30))}


def test_a_checkpoint_spout_is_named_in_a_warning_and_converted_on_request(store: Store) -> None:
    namespaces = load(store, dump("storm-1.1.0-wordcount"))
    report = store.migrate(*namespaces)
    assert len(report.warnings) == 1
    assert "$checkpointspout-1" in report.warnings[0]
    assert "--include-checkpoint-spout" in report.warnings[0]
    assert store.get("$checkpointspout-1") == dump("storm-1.1.0-wordcount").hashes["$checkpointspout-1"]
    report = store.migrate(*namespaces, include_checkpoint_spout=True)
    assert report.warnings == ()
    assert store.get("$checkpointspout-1") == dump("storm-1.2.4-wordcount").hashes["$checkpointspout-1"]
    assert store.undo(*namespaces, include_checkpoint_spout=True).error is None
    assert store.everything() == dump("storm-1.1.0-wordcount").hashes


@pytest.mark.parametrize("step", ["converting words-1$prepare", "converting words-1", "copying words-1 to words-1_old"])
@pytest.mark.parametrize("part", ["", "$prepare"])
def test_a_source_that_is_written_to_meanwhile_is_noticed_and_nothing_is_swapped(
    store: Store, part: str, step: str
) -> None:
    store.put("words-1", storm_1_1(words(5_000)))
    store.put("words-1$prepare", storm_1_1(words(5_000)))
    new = storm_1_1(words(1, first=70_000))
    write = Once(lambda: store.put(f"words-1{part}", new), step=step)
    before = store.everything()
    report = store.migrate("words-1", progress=write)
    if not write.was_done:  # this way through has no such step
        assert report.error is None
        return
    assert "written to meanwhile" in refusal(report) or "entries, and" in refusal(report)
    assert "Stop the topology" in refusal(report)
    before[f"words-1{part}"] |= new
    assert store.everything() == before
    assert store.migrate("words-1").error is None
    assert len(store.get(f"words-1{part}")) == 5_001


def test_a_value_that_is_changed_behind_the_scan_is_noticed(store: Store) -> None:
    store.put("words-1", storm_1_1(words(5_000)))
    field = next(iter(storm_1_1(words(1))))
    changed = {field: next(iter(storm_1_1({b"": b"\x02\x7f"}).values()))}
    write = Once(lambda: store.put("words-1", changed), page=3)
    report = store.migrate("words-1", progress=write)
    assert write.was_done
    assert "written to" in refusal(report)
    assert set(store.everything()) == {"words-1"}


@pytest.mark.parametrize("page", [1, 2, 3])
def test_two_migrations_at_the_same_time_never_swap_twice(store: Store, page: int) -> None:
    store.put("words-1", storm_1_1(words(5_000)))
    others: list[Report] = []
    also = Once(lambda: others.append(store.migrate("words-1")), page=page)
    report = store.migrate("words-1", progress=also)
    assert [other.error for other in others] == [None]
    assert "converted" not in actions(report).values()
    assert store.everything() == {"words-1": storm_1_2(words(5_000)), "words-1_old": storm_1_1(words(5_000))}


def test_a_topology_that_goes_on_is_noticed_by_its_transaction_ids(store: Store) -> None:
    store.put("words-1", storm_1_1(words(5_000)))
    store.put("words-1$txid", {b"commit": b"1", b"prepare": b"1"})
    before = store.everything()
    go_on = Once(lambda: store.put("words-1$txid", {b"prepare": b"2"}), step="converting words-1")
    assert "Stop the topology" in refusal(store.migrate("words-1", progress=go_on))
    before["words-1$txid"][b"prepare"] = b"2"
    assert store.everything() == before


def test_what_a_killed_run_left_is_removed_and_what_others_named_alike_is_not(store: Store) -> None:
    store.put("words-1", storm_1_1(words(30)))
    suffix = b"$anchorbolt$migrating$0123456789abcdef"
    for key in (b"words-1", b"words-1_old", b"words-1$prepare"):
        store.put(store.hashes.sibling(key, suffix).decode(), {b"half": b"done"})
    other = {store.hashes.sibling(b"words-2", suffix).decode(), "words-1$anchorbolt$migrating$", "words-1$mine"}
    for name in other:
        store.put(name, {b"not": b"ours"})
    assert store.migrate("words-1").error is None
    assert set(store.everything()) == {"words-1", "words-1_old", *other}


@pytest.mark.parametrize("name", ["words-1", "a}b", "{}x", "{tag}x", "a{}b{c}", "{a", "x{y}z", "ü-1"])
def test_any_name_can_be_migrated_and_taken_back(store: Store, name: str) -> None:
    store.put(name, storm_1_1(words(30)))
    store.put(f"{name}$prepare", storm_1_1(words(3)))
    before = store.everything()
    assert store.migrate(name).error is None
    assert store.everything() == {
        name: storm_1_2(words(30)),
        f"{name}_old": before[name],
        f"{name}$prepare": storm_1_2(words(3)),
        f"{name}$prepare_old": before[f"{name}$prepare"],
    }
    assert store.verify(name).error is None
    assert store.undo(name).error is None
    assert store.everything() == before
