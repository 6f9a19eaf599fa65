"""Verify, undo, discard-backup: what they compare, put back, remove, and refuse."""

from collections.abc import Callable

import pytest

from anchorbolt.migration_tools.base64_to_binary import Wrapper
from tests.migration_tools.base64_to_binary.conftest import Store, actions, refusal
from tests.migration_tools.base64_to_binary.listening import Listening, Once
from tests.migration_tools.storm_data import plain, storm_1_0, storm_1_1, storm_1_2, words

OLD = storm_1_1(words(2_500))
NEW = storm_1_2(words(2_500))


@pytest.fixture
def migrated(store: Store) -> Store:
    """A namespace with both hashes, migrated."""
    store.put("words-1", OLD)
    store.put("words-1$prepare", storm_1_1(words(3)))
    store.put("words-1$txid", {b"commit": b"1", b"prepare": b"2"})
    assert store.migrate("words-1").error is None
    return store


def test_a_migrated_namespace_is_verified(migrated: Store) -> None:
    report = migrated.verify("words-1")
    assert report.error is None
    assert set(actions(report).values()) == {"equal to the conversion of its backup"}


FIELD = next(iter(NEW))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda store: store.put("words-1", {FIELD: b"else"}), "1 different of 2,500 entries; field "),
        (lambda store: store.router.hdel("words-1", FIELD), "1 missing of 2,500 entries; field "),
        (lambda store: store.put("words-1", {b"new": b"1"}), "1 added of 2,500 entries"),
        (lambda store: store.router.delete("words-1"), "words-1 is not there, but words-1_old is"),
    ],
)
def test_every_difference_is_counted_and_keeps_the_backup_from_being_used_or_removed(
    migrated: Store, change: Callable[[Store], object], said: str
) -> None:
    change(migrated)
    before = migrated.everything()
    assert said in refusal(migrated.verify("words-1"))
    assert said in refusal(migrated.discard("words-1"))
    if "words-1" in before:
        assert said in refusal(migrated.undo("words-1"))
    assert migrated.everything() == before


def test_a_namespace_that_was_not_converted_is_no_conversion(store: Store) -> None:
    store.put("words-1", OLD)
    assert "has no words-1_old" in refusal(store.verify("words-1"))
    store.put("words-1_old", OLD)
    assert "has not been converted" in refusal(store.verify("words-1"))
    assert "has not been converted" in refusal(store.discard("words-1"))


def test_undo_puts_all_back_and_a_second_one_is_refused(migrated: Store) -> None:
    assert actions(migrated.undo("words-1", dry_run=True)) == {
        "words-1$prepare": "would be put back",
        "words-1": "would be put back",
    }
    assert "words-1_old" in migrated.everything()
    assert set(actions(migrated.undo("words-1")).values()) == {"put back"}
    expected = {
        "words-1": OLD,
        "words-1$prepare": storm_1_1(words(3)),
        "words-1$txid": {b"commit": b"1", b"prepare": b"2"},
    }
    assert migrated.everything() == expected
    assert "has no words-1_old" in refusal(migrated.undo("words-1"))
    assert migrated.everything() == expected


def test_undo_of_a_changed_namespace_keeps_it_under_another_name(migrated: Store) -> None:
    migrated.put("words-1", {b"new": b"1"})
    report = migrated.undo("words-1", keep_changed=True)
    assert report.error is None
    kept = report.namespaces[0].hashes[1].kept_as
    assert kept in ("words-1_undone", "{words-1}_undone")
    assert migrated.get(kept) == {**NEW, b"new": b"1"}
    assert migrated.get("words-1") == OLD
    assert migrated.get("words-1_old") == {}
    migrated.migrate("words-1")
    migrated.put("words-1", {b"new": b"2"})
    assert f"{kept} exists already" in refusal(migrated.undo("words-1", keep_changed=True))


def test_undo_does_not_prepare_again_what_a_topology_has_rolled_back(migrated: Store) -> None:
    migrated.router.delete("words-1$prepare")
    before = migrated.everything()
    message = refusal(migrated.undo("words-1"))
    assert "words-1$prepare is not there, but words-1$prepare_old is" in message
    assert migrated.everything() == before
    assert migrated.undo("words-1", keep_changed=True).error is None
    assert migrated.get("words-1") == OLD
    assert migrated.get("words-1$prepare") == storm_1_1(words(3))


def test_undo_repairs_a_prepared_hash_that_storms_own_tool_of_2_x_renamed(store: Store) -> None:
    store.put("words-1", OLD)
    store.put("words-1$prepare_old", storm_1_1(words(3)))
    assert "anchorbolt migrate undo" in refusal(store.migrate("words-1"))
    assert store.undo("words-1").error is None
    assert store.everything() == {"words-1": OLD, "words-1$prepare": storm_1_1(words(3))}


def test_undo_repairs_a_hash_that_storms_own_tool_of_2_x_renamed(store: Store) -> None:
    store.put("words-1_old", OLD)
    store.put("words-1$txid", {b"commit": b"1", b"prepare": b"1"})
    message = refusal(store.migrate("words-1"))
    assert "anchorbolt migrate undo" in message
    assert store.undo("words-1").error is None
    assert store.get("words-1") == OLD
    assert store.migrate("words-1").error is None
    assert store.get("words-1") == NEW


def test_each_command_reports_the_result_of_storms_own_tool_of_1_2(store: Store) -> None:
    store.put("words-1_old", OLD)
    store.put("words-1", plain(OLD))
    for report in (store.migrate("words-1"), store.verify("words-1"), store.discard("words-1", dry_run=True)):
        assert report.error is None
        assert "no later Storm reads" in report.namespaces[0].hashes[0].note
    assert "--wrapper keep" in refusal(store.verify("words-1", wrapper=Wrapper.STORM_1_2))
    assert store.verify("words-1", wrapper=Wrapper.KEEP).error is None
    assert store.migrate("words-1", wrapper=Wrapper.KEEP).namespaces[0].hashes[0].note == ""
    assert store.undo("words-1").error is None
    assert store.migrate("words-1").error is None
    assert store.get("words-1") == NEW
    assert store.verify("words-1").namespaces[0].hashes[0].note == ""
    assert "--wrapper storm-1.2" in refusal(store.verify("words-1", wrapper=Wrapper.KEEP))


def test_a_checkpoint_spout_that_was_forgotten_is_named_by_each_later_step(store: Store) -> None:
    store.put("words-1", OLD)
    store.put("$checkpointspout-1", storm_1_1(words(1)))
    assert store.migrate("words-1").error is None
    for spouts in (False, True):
        for report in (
            store.verify("words-1", include_checkpoint_spout=spouts),
            store.discard("words-1", include_checkpoint_spout=spouts, dry_run=True),
        ):
            [warning] = report.warnings
            assert "$checkpointspout-1" in warning
    assert store.migrate(include_checkpoint_spout=True).error is None
    assert store.verify("words-1", include_checkpoint_spout=True).warnings == ()
    assert store.verify("words-1").warnings != ()


def test_a_field_that_is_added_while_it_is_verified_is_noticed(migrated: Store) -> None:
    add = Once(lambda: migrated.put("words-1", {b"new": b"1"}), page=1)
    assert "1 added of 2,500" in refusal(migrated.verify("words-1", progress=add))


def test_discard_removes_the_backups_alone(migrated: Store) -> None:
    assert "words-1_old" in migrated.everything()
    assert set(actions(migrated.discard("words-1", dry_run=True)).values()) == {"backup would be discarded"}
    assert "words-1_old" in migrated.everything()
    assert set(actions(migrated.discard("words-1")).values()) == {"backup discarded"}
    assert set(migrated.everything()) == {"words-1", "words-1$prepare", "words-1$txid"}


@pytest.mark.parametrize("command", ["undo", "discard"])
def test_a_backup_that_changes_meanwhile_is_left(migrated: Store, command: str) -> None:
    write = Once(lambda: migrated.put("words-1_old", {b"new": b"1"}), page=1)
    report = getattr(migrated, command)("words-1", progress=write)
    assert write.was_done
    assert report.error is not None
    assert migrated.get("words-1_old") == {**OLD, b"new": b"1"}
    assert migrated.get("words-1") == NEW


@pytest.mark.parametrize(
    ("command", "step", "key", "said"),
    [
        ("undo", "copying words-1_old", "words-1", "after words-1$prepare was put back"),
        ("discard", "comparing words-1_old", "words-1_old", "after the backup of words-1$prepare was discarded"),
    ],
)
def test_a_cluster_says_what_was_done_before_the_second_hash_was_refused(
    cluster: Store, command: str, step: str, key: str, said: str
) -> None:
    for name in ("words-1", "words-1$prepare"):
        cluster.put(name, storm_1_1(words(3)))  # a single page
    assert cluster.migrate("words-1").error is None
    steps: list[str] = []

    def on_page() -> None:
        if steps[-1].startswith(step):
            cluster.put(key, {b"new": b"1"})

    progress = Listening(on_step=steps.append, on_page=on_page)
    message = refusal(getattr(cluster, command)("words-1", progress=progress))
    assert said in message, steps
    assert f"{key} was written to meanwhile" in message


def test_a_namespace_without_entries_has_nothing_to_go_back_to(store: Store) -> None:
    store.put("words-1$txid", {b"commit": b"1"})
    for command in (store.migrate, store.verify, store.undo, store.discard):
        report = command("words-1")
        assert report.error is None
        assert report.namespaces[0].hashes == ()


def test_a_backup_of_other_entries_is_not_taken_for_the_source(store: Store) -> None:
    store.put("words-1", storm_1_2(words(10)))
    store.put("words-1_old", storm_1_0(words(10, first=5)))
    assert "5 missing, 5 added of 10 entries" in refusal(store.verify("words-1"))
