"""What only a conversion in HBase has: another table."""

from dataclasses import replace
from typing import Any

import pytest

from anchorbolt.errors import AnchorboltError, ConfigError, StateError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.storm_conversion.commands import convert_rows
from anchorbolt.state_backends.hbase import table
from anchorbolt.state_backends.hbase.table import HBaseTable
from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.base64_to_binary.conftest import actions
from tests.migration_tools.conftest import Killed
from tests.migration_tools.storm_conversion.conftest import (
    SPOUT,
    STATES,
    WORD_COUNTS,
    Tables,
    converted,
    forms_of,
    load,
    options,
    stated,
)
from tests.migration_tools.storm_data import storm_1_2, words, words_2_6
from tests.support.storm_hbase import StormTable

pytestmark = pytest.mark.slow

C, D, E = Generation.STORM_1_2, Generation.STORM_2_0, Generation.STORM_2_6
TASKS = ["count-3", "count-4", SPOUT]


@pytest.mark.parametrize("after", [False, True])
def test_a_second_run_finishes_from_each_message_that_writes(
    hbase: Tables, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    load(hbase, WORD_COUNTS[C], TASKS)
    source = hbase.everything()
    outcomes = set()
    for number in range(1, 100):
        hbase.target = f"{hbase.source.name}-{number}"
        call, left = HBaseTable._call, number

        def struck(self: HBaseTable, method: str, *arguments: Any, call: Any = call) -> Any:
            nonlocal left
            left -= method == "mutateRowsTs"
            if left == 0 and not after:
                raise Killed
            result = call(self, method, *arguments)
            if left == 0:
                raise Killed
            return result

        with monkeypatch.context() as patched:
            patched.setattr(HBaseTable, "_call", struck)
            patched.setattr(table, "_ROWS_PUT", 10)
            try:
                converted(hbase, TASKS, E)
                break
            except Killed:
                outcomes.add(len(hbase.converted()))
        assert set(actions(converted(hbase, TASKS, E)).values()) <= {
            "converted",
            "converted by an earlier run, left alone",
        }
        for key, entries in hbase.converted().items():
            is_txid = key.endswith("$txid")
            assert entries == source[key] if is_txid else forms_of(entries, E) == stated(WORD_COUNTS[C], key, E)
    assert len(outcomes) > 3
    assert hbase.everything() == source
    assert hbase.converted().keys() == source.keys()


@pytest.mark.parametrize(
    "write",
    [
        ("count-4", storm_1_2(words(3))),
        ("count-4$txid", {b"commit": b"6", b"prepare": b"6"}),
        ("count-3", storm_1_2(words(2))),
        ("count-4$prepare", {}),
        ("count-3$prepare", storm_1_2(words(2))),
    ],
    ids=["entries", "txid", "fewer", "committed", "prepared"],
)
def test_a_topology_that_writes_meanwhile_is_noticed(hbase: Tables, write: tuple[str, Any]) -> None:
    load(hbase, WORD_COUNTS[C], TASKS)

    class Writes(Progress):
        def begin(self, what: str, total: int | None) -> None:
            if what == "comparing count-3$prepare":
                hbase.put(*write)

    with pytest.raises(StateError, match="written to meanwhile"):
        converted(hbase, TASKS, E, progress=Writes())
    hbase.target += "-again"
    converted(hbase, TASKS, E)


def refused(error: type[AnchorboltError], hbase: Tables, **more: Any) -> None:
    before = hbase.converted()
    with pytest.raises(error):
        converted(hbase, ["count-3"], **{"target": E, **more})
    assert hbase.converted() == before


def test_a_table_with_other_entries_of_the_namespace_is_refused_and_others_are_kept(hbase: Tables) -> None:
    load(hbase, WORD_COUNTS[C], ["count-3"])
    target = StormTable(hbase.source._server, hbase.target)
    target.put("count-4", words_2_6(2))
    converted(hbase, ["count-3"], E)
    assert hbase.converted()["count-4"] == words_2_6(2)
    done = hbase.converted()["count-3"]
    for key, entries in (
        ("count-3$prepare", words_2_6(2)),
        ("count-3", {**done, **words_2_6(1)}),
        ("count-3", dict.fromkeys(done, b"")),
        ("count-3$txid", {b"commit": b"6", b"prepare": b"6"}),
    ):
        before = hbase.converted().get(key, {})
        target.put(key, entries)
        refused(StateError, hbase)
        refused(StateError, hbase, dry_run=True)
        target.put(key, before)
    assert converted(hbase, ["count-3"], E).error is None
    target.close()


def test_rows_that_an_operator_deleted_from_the_target_are_noticed(hbase: Tables) -> None:
    load(hbase, WORD_COUNTS[C], ["count-3"])
    converted(hbase, ["count-3"], E)
    target = StormTable(hbase.source._server, hbase.target)
    target.put("count-3", {})
    target.close()
    refused(StateError, hbase)


def test_tables_that_do_not_fit_are_refused(hbase: Tables) -> None:
    load(hbase, STATES[C], ["integer-1"])
    source = hbase.source.provider()
    refused(ConfigError, hbase, target=Generation.STORM_1_1)
    names, chosen = [b"integer-1"], options(E)
    with pytest.raises(ConfigError):
        convert_rows(source, source, names, chosen)
    for missing in (replace(source, table="none"), replace(source, table="none", create_table=False)):
        with pytest.raises((ConfigError, StateError)):
            convert_rows(missing, replace(source, table=hbase.target), names, chosen)
    with pytest.raises(ConfigError, match="createTable"):
        convert_rows(source, replace(source, table=hbase.target, create_table=False), names, chosen)
    assert hbase.converted() == {}


def test_large_namespaces_are_converted_in_pages(hbase: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("words-1", "words-1$prepare"):
        hbase.put(name, storm_1_2(words(2500)))
    sizes = []

    class Counts(Progress):
        def advance(self, entries: int) -> None:
            sizes.append(entries)

    converted(hbase, ["words-1"], E, progress=Counts())
    assert max(sizes) <= 1000
    assert hbase.converted() == {name: words_2_6(2500) for name in ("words-1", "words-1$prepare")}
