"""A conversion that is killed with SIGKILL is finished by the next run."""

import random
from contextlib import ExitStack

import pytest

from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.base64_to_binary.conftest import Store
from tests.migration_tools.base64_to_binary.kills import convert, kill_and_finish, victims
from tests.migration_tools.base64_to_binary.stricken import Killed, Stricken
from tests.migration_tools.storm_conversion.conftest import converted


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_second_run_finishes_what_a_killed_one_has_begun() -> None:
    moments = random.Random(7)
    with ExitStack() as stack:
        for victim in victims(stack, entries=10_000, tool="convert"):
            victim.restore()
            seconds = victim.run()
            for _ in range(4):
                kill_and_finish(victim, moments.uniform(0, seconds))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["RENAME", "RENAMENX", "EXEC", "UNLINK", "HSET", "WATCH"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_second_run_finishes_from_each_step_that_changes_something(
    store: Store, monkeypatch: pytest.MonkeyPatch, command: str, nth: int, after: bool
) -> None:
    tool = convert(600)
    for key, entries in tool.source.items():
        store.put(key, entries)
    with monkeypatch.context() as patched:
        stricken = Stricken(patched, command, nth, after=after)
        try:
            converted(store, ["words-1", "words-2"], Generation.STORM_2_6)
        except Killed:
            assert stricken.left <= 0
    found = store.everything()
    for key, entries in tool.source.items():
        is_converted = found[key] == tool.converted[key] and found.get(f"{key}_old") == entries
        assert is_converted or found[key] == entries, key
    report = converted(store, ["words-1", "words-2"], Generation.STORM_2_6)
    assert report.error is None
    assert store.everything() == {**tool.converted, **{f"{key}_old": entries for key, entries in tool.source.items()}}
