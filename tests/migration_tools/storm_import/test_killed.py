"""An import that was killed."""

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.maintenance import namespace_changes
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from anchorbolt.testing import LocalCluster
from tests.engine.jobs import word_count
from tests.migration_tools.conftest import Killed, KilledAt, conf_of
from tests.migration_tools.storm_import.conftest import COMMITTED, Storm, imported, is_empty, merged


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_an_import_that_is_killed_anywhere_leaves_an_empty_or_whole_target_and_is_finished(
    storm: StateProvider, topology: Storm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(namespace_changes, "_WAITING_BYTES", 100)
    outcomes = set()
    for number in range(1, 100):
        target = SqliteStateProvider(str(tmp_path / f"{number}"))
        with monkeypatch.context() as killed:
            limit = KilledAt(killed, number, after=after)
            with suppress(Killed):
                imported(storm, target, parallelism={"count": 3})
        if limit.left > 0:
            break
        decided = read_topology(target, "words", "words").stored is not None
        assert decided or is_empty(target)
        outcomes.add(decided)
        copied = tmp_path / f"{number}-run"
        Path(target.directory).mkdir(exist_ok=True)
        shutil.copytree(target.directory, copied)
        imported(storm, target, parallelism={"count": 3})
        assert merged(target) == COMMITTED
        # A start instead of the second command begins with nothing or with everything.
        assert started(SqliteStateProvider(str(copied)), tmp_path / f"{number}-place") == (COMMITTED if decided else {})
    assert outcomes == {False, True}
    assert merged(target) == COMMITTED


def started(provider: StateProvider, place: Path) -> dict[Any, Any]:
    """The state of `count` with which a run begins."""
    conf = {"topology.checkpoint.location": str(place), **conf_of(provider)}
    handle = LocalCluster().submit(word_count(FeederSpout(["sentence"]), name="words", parallelism=3), conf)
    assert handle.await_termination(60)
    return dict(handle.state_items("count"))
