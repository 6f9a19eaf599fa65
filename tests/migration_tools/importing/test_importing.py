"""The entries of a file put into a bolt: in one transaction, each in its task, or not at all."""

import json
import shutil
from collections import Counter
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.state.text import entry_content
from anchorbolt.errors import ConfigError, MigrationRefused
from anchorbolt.maintenance import namespace_changes
from anchorbolt.maintenance.key_placement import first_of_key
from anchorbolt.migration_tools.entries import scan_entries
from anchorbolt.migration_tools.importing import entry_lines
from anchorbolt.migration_tools.importing.importing import ImportReport, import_entries
from anchorbolt.migration_tools.upkeep.purging import purge_component
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.windows import Tumbling
from tests.migration_tools.conftest import ALL, MSGPACK, Killed, KilledAt, StartWords
from tests.migration_tools.test_rescaling import LATER, WORDS, Job, Reminds, Windows

COUNTS = Counter(WORDS)


class Import:
    """A job, and a file whose entries its bolt `count` gets."""

    def __init__(self, job: Job, path: Path) -> None:
        self.job, self.path = job, path

    def write(self, entries: Any, *more: str, **facts: Any) -> None:
        lines = [json.dumps({"key": key, "value": value, **facts}) for key, value in dict(entries).items()]
        self.path.write_text("".join(f"{line}\n" for line in [*lines, *more]))

    def run(self, **options: Any) -> ImportReport:
        job, now = self.job, options.pop("now", 0)
        return import_entries(job.provider, job.name, job.name, "count", self.path, MSGPACK, now=now, **options)


@pytest.fixture
def given(sqlite_provider: SqliteStateProvider, name: str, tmp_path: Path) -> Import:
    return Import(Job(sqlite_provider, name, tmp_path / "place"), tmp_path / "entries.jsonl")


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_lines, "_PAGE", 3)
    monkeypatch.setattr(namespace_changes, "_WAITING_BYTES", 100)


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_entries_are_put_where_their_tuples_go_beside_those_that_are_there_or_instead_of_them(
    store: StateProvider, name: str, tmp_path: Path, small_pages: None
) -> None:
    given = Import(Job(store, name, tmp_path / "place"), tmp_path / "entries.jsonl")
    given.job.run(WORDS, 3)
    new = {f"word-{number}": number for number in range(20)}
    given.write({**new, "be": 40}, "", '{"key": "be", "value": 41}')
    planned = given.run(dry_run=True)
    assert given.job.run([], 3) == COUNTS
    assert replace(given.run(), is_dry_run=True) == planned
    assert (planned.entries, planned.removed) == (22, 0)
    assert given.job.run(["be", "word-7"], 3) == {**COUNTS, **new, "be": 42, "word-7": 8}
    given.write({"be": 1, "only": 2})
    report = given.run(replaces=True)
    assert (report.entries, report.removed) == (2, len(COUNTS) + 20)
    assert given.job.run(["be", "only", "to"], 3) == {"be": 2, "only": 3, "to": 1}
    given.path.write_text("")
    given.run(replaces=True)
    assert given.job.run([], 3) == {}
    assert given.run(replaces=True).txid is None


def test_what_scan_prints_is_put_into_a_bolt_with_other_tasks(given: Import) -> None:
    given.job.run([("a", 1), (("b", 1.5), 2), (b"\x00", 3), ((1, None, ("x",)), 4)], 2)
    lines = []
    for task in range(2):
        with scan_entries(given.job.provider, f"{given.job.name}:count-{task}", MSGPACK) as (_, pages):
            lines += [json.dumps(entry_content(entry)) for page in pages for entry in page]
    before = given.job.run([], 2)
    given.path.write_text("\n".join(lines))
    given.job.rescale(5, key_functions={"key": lambda key: key})
    purge_component(given.job.provider, given.job.name, given.job.name, "count")
    assert given.job.run(["z"], 3) == {"z": 1}
    given.run(key_functions={"key": lambda key: key})
    assert given.job.run([(b"\x00", 0)], 3) == {**before, b"\x00": before[b"\x00"] + 1, "z": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "it is not JSON"),
        ("[1, 2]", "not an object"),
        ('{"key": 1, "value": ' + 3000 * "[" + 3000 * "]" + "}", "nested too deep"),
        ('{"key": 1}', "not an object"),
        ('{"key": 1, "value": 2, "expires": 7}', "'expires' is unknown. Did you mean 'expires_at'"),
        ('{"key": {"$repr": "x"}, "value": 2}', "stands for no value"),
        ('{"key": "a", "value": {"$bytes": "?"}}', "is not a bytes"),
        ('{"key": {"a": 1}, "value": 2}', "key"),
        ('{"key": 1, "value": 2, "expires_at": "soon"}', "expires_at is 'soon'"),
        ('{"key": 1, "value": 2, "schema_version": 9}', "schema_version is 9"),
        ('{"key": 1, "value": 2, "schema_version": 0}', "schema_version is 0"),
        ('{"key": 1, "value": {"$bytes": "AA=="}, "value_problem": "unknown"}', "could not be decoded"),
    ],
)
def test_a_line_that_is_no_entry_is_named_and_nothing_is_changed(given: Import, line: str, problem: str) -> None:
    given.job.run(WORDS, 2)
    given.write({f"word-{number}": number for number in range(5000)}, line)
    with pytest.raises(MigrationRefused) as refused:
        given.run()
    assert f"{given.path}, line 5001: " in refused.value.message
    assert problem in refused.value.message
    assert given.job.run(LATER, 2) == Counter(WORDS + LATER)


def test_what_cannot_be_imported_is_refused(given: Import) -> None:
    with pytest.raises(MigrationRefused):  # there is no topology
        given.run()
    given.job.run(WORDS, 2)
    with pytest.raises(ConfigError, match="cannot be read"):
        given.run()
    given.write({"a": 1})
    job = given.job
    with pytest.raises(MigrationRefused, match="no stateful bolt 'counts'"):
        import_entries(job.provider, job.name, job.name, "counts", given.path, MSGPACK, now=0)
    with pytest.raises(MigrationRefused, match="are not where a fields grouping puts them"):
        given.run(key_functions={"other": len})
    assert job.run([], 2) == COUNTS


def test_a_topology_that_runs_is_refused(
    sqlite_provider: SqliteStateProvider, start_words: StartWords, name: str, tmp_path: Path
) -> None:
    handle = start_words(sqlite_provider, FeederSpout(["sentence"], [[("to be",)]]))
    given = Import(Job(sqlite_provider, name, tmp_path / "checkpoint"), tmp_path / "entries.jsonl")
    given.write({"be": 9})
    with pytest.raises(MigrationRefused, match=r"holds the fence|is writing"):
        given.run()
    handle.stop()
    assert handle.await_termination(60)
    given.run()
    assert dict(start_words(sqlite_provider, FeederSpout(["sentence"]), until_empty=True).state_items("count")) == {
        "to": 1,
        "be": 9,
    }


def test_the_keys_of_a_bolt_that_is_not_grouped_by_fields_have_no_task(given: Import) -> None:
    given.job.run(WORDS, 2, grouping="shuffle_grouping")
    given.write({"a": 1})
    with pytest.raises(MigrationRefused, match="belong to no task"):
        given.run()


def test_a_file_that_changes_between_the_check_and_the_transaction_is_refused(
    given: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.job.run(WORDS, 2)
    given.write({"a": 1})
    begun = import_entries.__globals__["begun"]

    def begun_later(*arguments: Any, **options: Any) -> Any:
        given.write({"a": 2})
        return begun(*arguments, **options)

    monkeypatch.setitem(import_entries.__globals__, "begun", begun_later)
    with pytest.raises(MigrationRefused, match="has changed"):
        given.run()
    assert given.job.run(LATER, 2) == Counter(WORDS + LATER)


def test_entries_expire_when_the_file_says_so(given: Import, small_pages: None) -> None:
    job = given.job
    job.run(WORDS, 2, Reminds())
    clock = round(job.clock() * 1000)
    given.write({"be": 5, "soon": 1, "or": 3}, expires_at=clock + 60_000)
    given.run(now=clock)
    given.write({"gone": 1}, '{"key": "stays", "value": 1}', '{"key": "to", "value": 6}', expires_at=clock)
    assert given.run(now=clock).expired == 1
    job.clock.advance(30)
    assert job.run(["end"], 2, Reminds()) == {"be": 5, "soon": 1, "or": 3, "stays": 1, "to": 6, "end": 1}
    job.clock.advance(60)
    assert job.run(["x"], 2, Reminds()) == {"stays": 1, "to": 6, "x": 1}
    stored = {key for task in range(2) for key in job.stored(task)}
    assert not any(b"be" in key or b"soon" in key for key in stored if not key.startswith(b"\xc1"))


def test_the_keys_of_windows_are_placed_by_their_first_item(given: Import) -> None:
    job, windows = given.job, Windows(Tumbling("1 s"), "5 s")
    job.run([(word, 100) for word in WORDS], 3, windows)
    given.path.write_text('{"key": ["be", 0], "value": 9}\n')
    given.run()
    assert given.run(key_functions={"key[0]": first_of_key}).entries == 1
    job.run([("end", 1_000_000)], 3, Windows(Tumbling("1 s"), "5 s"))
    assert {key: count for key, _, count in job.captured.tuples} == {**COUNTS, "be": 9}


def test_keys_that_may_be_grouped_in_two_ways_need_a_function(given: Import) -> None:
    given.job.run(["a"], 2)
    given.write({"b": 1}, *(f'{{"key": ["b", {number}], "value": 1}}' for number in range(9)))
    with pytest.raises(MigrationRefused, match=r"line \d+: .*--key-function"):
        given.run()
    given.run(key_functions={"key": lambda key: key})
    assert given.job.run([(("b", 7), 0)], 2)["b", 7] == 2


@pytest.mark.parametrize("after", [False, True])
def test_an_import_that_is_killed_anywhere_is_whole_or_can_be_repeated(
    after: bool, name: str, tmp_path: Path, small_pages: None
) -> None:
    whole = SqliteStateProvider(str(tmp_path / "whole"))
    Job(whole, name, tmp_path / "place").run(WORDS, 2)
    new, ends = {f"word-{number}": number for number in range(9)}, Counter[str]()
    for number in range(1, 200):
        provider, place = SqliteStateProvider(str(tmp_path / f"store-{number}")), tmp_path / f"place-{number}"
        shutil.copytree(whole.directory, provider.directory)
        shutil.copytree(tmp_path / "place", place)
        given = Import(Job(provider, name, place), tmp_path / "entries.jsonl")
        given.write(new)
        with pytest.MonkeyPatch.context() as patched:
            killed = KilledAt(patched, number, after=after)
            with suppress(Killed):
                given.run(replaces=True)
            if killed.left > 0:
                break
        found = None if number % 2 else given.job.run([], 2)
        assert found in (None, COUNTS, new)
        ends["new" if found == new else "old"] += 1
        given.run(replaces=True)
        assert given.job.run(["word-1"], 2) == {**new, "word-1": 2}
    assert min(ends.values()) > 1


def test_memory_does_not_depend_on_the_number_of_lines(given: Import) -> None:
    given.job.run(WORDS, 2)
    file = entry_lines.EntryFile(given.path)
    given.path.write_text("".join(f'{{"key": {number}, "value": 1}}\n' for number in range(10_000)))
    assert max(len(page) for page in file.pages()) == 1000
    with closing(given.job.provider.open(f"{given.job.name}:count-0")) as storage:
        assert len(list(storage.scan())) == 1
