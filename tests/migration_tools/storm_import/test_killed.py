"""An import that was killed."""

import json
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
from tests.migration_tools.killed_commands import Kills, RunCommand, run_command  # noqa: F401 - fixture
from tests.migration_tools.storm_data import words_2_6
from tests.migration_tools.storm_import.conftest import COMMITTED, Load, Storm, imported, is_empty, merged, stated
from tests.support.storm_fixtures import dump


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


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_command_killed_at_random_moments_leaves_an_empty_or_whole_target_and_is_finished(
    storm: StateProvider,
    load: Load,
    tmp_path: Path,
    run_command: RunCommand,  # noqa: F811
) -> None:
    """On what real Storm left, with more words of the same form."""
    left = dump("storm-2.6.4-wordcount")
    words = {**stated(left, "count-3"), **stated(left, "count-4"), **{f"word-{word}": word for word in range(6000)}}
    hashes = {name: dict(fields) for name, fields in left.hashes.items()}
    for number, entry in enumerate(words_2_6(6000).items()):
        hashes[f"count-{3 + number % 2}"].update([entry])
    load(hashes)
    (tmp_path / "from.json").write_text(json.dumps(conf_of(storm)))
    command = ["migrate", "storm-state", "--from", str(tmp_path / "from.json"), "--to", str(tmp_path / "to.json")]
    command += ["--topology", "words", "--component", "count=count", "--parallelism", "count=3"]
    kills = Kills()
    for number in kills.numbers():
        target = SqliteStateProvider(str(tmp_path / f"{number}"))
        (tmp_path / "to.json").write_text(json.dumps(conf_of(target)))
        if not number:
            kills.ended(*run_command(*command))
            assert merged(target) == words
            continue
        kills.ended(*run_command(*command, kill_after=kills.moment()))
        decided = read_topology(target, "words", "words").stored is not None
        assert decided or is_empty(target)
        kills.ends["decided" if decided else "nothing decided"] += 1
        if number % 2:  # a start begins with nothing or with everything
            assert started(target, tmp_path / f"{number}-place") == (words if decided else {})
        else:
            assert run_command(*command)[0] == 0
            assert merged(target) == words
            assert started(target, tmp_path / f"{number}-place") == words


def started(provider: StateProvider, place: Path) -> dict[Any, Any]:
    """The state of `count` with which a run begins."""
    conf = {"topology.checkpoint.location": str(place), **conf_of(provider)}
    handle = LocalCluster().submit(word_count(FeederSpout(["sentence"]), name="words", parallelism=3), conf)
    assert handle.await_termination(60)
    return dict(handle.state_items("count"))
