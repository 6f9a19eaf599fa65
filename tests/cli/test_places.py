"""Commands do not take another file system, or one that they cannot reach, for the run's own without content."""

from pathlib import Path

import pytest

from anchorbolt.cli.places import open_place
from anchorbolt.errors import ConfigError
from anchorbolt.files.worker_locations import RemoteFolder
from tests.cli.conftest import count_words, invoke, write_conf

NOBODY = "hdfs://127.0.0.1:1/x"


@pytest.fixture(autouse=True)
def nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def exists(self: RemoteFolder, name: str) -> bool:
        raise ConnectionError("connection refused")

    monkeypatch.setattr(RemoteFolder, "exists", exists)


def test_a_place_that_does_not_answer_or_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="connection refused"):
        open_place(NOBODY)
    monkeypatch.setattr(RemoteFolder, "exists", lambda self, name: False)
    with pytest.raises(ConfigError, match="does not exist there"):
        open_place("s3a://bucket/x")
    monkeypatch.setattr(RemoteFolder, "exists", lambda self, name: True)
    assert open_place("s3a://bucket/x").location == "s3a://bucket/x"


def test_a_checkpoint_location_that_does_not_answer_is_not_explained_as_empty(here: Path) -> None:
    count_words(write_conf(here / "conf.json", here / "state"), "a b a")
    result = invoke(
        "state", "explain", "words", "--conf", "conf.json", "--set", f"topology.checkpoint.location={NOBODY}"
    )
    assert (result.exit_code, result.stdout) == (2, "")
    assert "connection refused" in result.stderr


@pytest.mark.parametrize("command", ["list", "replay"])
def test_dead_letters_that_cannot_be_asked_for_are_not_none(here: Path, command: str) -> None:
    result = invoke("dead-letters", command, NOBODY)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "connection refused" in result.stderr


def test_a_directory_of_dead_letters_that_does_not_exist_here_may_be_elsewhere(here: Path) -> None:
    listed = invoke("dead-letters", "list", "letters", "--json")
    assert (listed.exit_code, listed.stdout) == (0, "")
    replayed = invoke("dead-letters", "replay", "letters")
    assert (replayed.exit_code, replayed.stdout) == (2, "")
    for result in (listed, replayed):
        assert f"{here / 'letters'} does not exist on this machine" in result.stderr
        assert "fs.defaultFS" in result.stderr
