"""A migration that is killed with SIGKILL is finished by the next run. `kills.py` is the same at length."""

import random
from contextlib import ExitStack

import pytest

from tests.migration_tools.base64_to_binary.conftest import Store
from tests.migration_tools.base64_to_binary.kills import kill_and_finish, victims
from tests.migration_tools.base64_to_binary.listening import Listening
from tests.migration_tools.base64_to_binary.stricken import Killed, Stricken
from tests.migration_tools.storm_data import storm_1_1, storm_1_2, words


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_second_run_finishes_what_a_killed_one_has_begun() -> None:
    moments = random.Random(7)
    with ExitStack() as stack:
        for victim in victims(stack, entries=20_000):
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
    source = {"words-1": storm_1_1(words(600)), "words-1$prepare": storm_1_1(words(5))}
    for key, entries in source.items():
        store.put(key, entries)
    with monkeypatch.context() as patched:
        stricken = Stricken(patched, command, nth, after=after)
        try:
            store.migrate("words-1", progress=Listening())
        except Killed:
            assert stricken.left <= 0
    report = store.migrate("words-1")
    assert report.error is None
    assert store.everything() == {
        "words-1": storm_1_2(words(600)),
        "words-1$prepare": storm_1_2(words(5)),
        **{f"{key}_old": entries for key, entries in source.items()},
    }
