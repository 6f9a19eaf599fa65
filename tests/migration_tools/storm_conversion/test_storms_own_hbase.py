"""State in HBase that Storm 2.5's own provider wrote, and converted state that it reads and continues."""

from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.storm_conversion.conftest import SPOUT, WORD_COUNTS, Tables, converted, load
from tests.migration_tools.storm_conversion.storms_own import StormOnHBase
from tests.migration_tools.storm_import.conftest import imported, merged, stated
from tests.servers.hbase_server import HBaseServer
from tests.support.storm_hbase import StormTable

pytestmark = [pytest.mark.thorough, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> StormOnHBase:
    try:
        return StormOnHBase(tmp_path_factory.mktemp("storm"))
    except LookupError as missing:
        pytest.skip(str(missing))


def test_what_storm_wrote_is_taken_after_storms_recovery(
    storm: StormOnHBase, hbase: Tables, hbase_server: HBaseServer, tmp_path: Path
) -> None:
    storm.run(hbase_server, hbase.source, "write")
    target = SqliteStateProvider(str(tmp_path / "target"))
    report = imported(hbase.source.provider(), target, parallelism={"count": 3})
    assert (report.txid, report.rolls_forward) == (2, True)
    words = {f"word-{number}": number for number in range(2000) if number != 2}
    assert merged(target) == {**words, "word-1": 1000, "new": 7}


@pytest.mark.parametrize("source", [Generation.STORM_1_2, Generation.STORM_2_6])
def test_storm_reads_and_continues_what_was_converted_for_it(
    storm: StormOnHBase, hbase: Tables, hbase_server: HBaseServer, source: Generation
) -> None:
    dump = WORD_COUNTS[source]
    names = ["count-3", "count-4", SPOUT]
    load(hbase, dump, names)
    converted(hbase, names, Generation.STORM_2_0)
    with closing(StormTable(hbase_server, hbase.target)) as table:
        found = storm.run(hbase_server, table, "read", *names)
        assert "state=COMMITTING" in found.pop(SPOUT)["__state"]
        expected = {name: {key: str(value) for key, value in stated(dump, name).items()} for name in names[:2]}
        assert found == expected
        storm.run(hbase_server, table, "count", "count-4")
        assert storm.run(hbase_server, table, "read", "count-4") == {"count-4": {**expected["count-4"], "new": "7"}}
