"""Converted state, read by the Storm that it was converted for: its own jars, with its own provider of Redis states."""

from collections.abc import Callable
from typing import Any

import pytest

from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.base64_to_binary.conftest import Store
from tests.migration_tools.storm_conversion.conftest import (
    SPOUT,
    STATES,
    UNREADABLE,
    WORD_COUNTS,
    converted,
    load,
    shown,
)
from tests.migration_tools.storm_conversion.storms_own import StormReader
from tests.support.storm_fixtures import Dump

pytestmark = [pytest.mark.thorough, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Generation], StormReader]:
    """Return Storm's program of a generation, compiled once."""
    readers: dict[Generation, StormReader] = {}

    def reader_of(generation: Generation) -> StormReader:
        if generation not in readers:
            try:
                readers[generation] = StormReader(generation, tmp_path_factory.mktemp("storm"))
            except LookupError as missing:
                pytest.skip(str(missing))
        return readers[generation]

    return reader_of


def stated(dump: Dump, name: str) -> dict[str, Any]:
    """Return what Storm's `get` returns for each key: the prepared value if there is one, and null if it is deleted."""
    expected = dump.expected[name]
    pairs = [*expected["entries"], *(expected["prepare"] or ())]
    return {shown(plain(key)): {"t": "null"} if value["t"] == "tombstone" else plain(value) for key, value in pairs}


def plain(form: Any) -> Any:
    """Leave out the text of floats, which Java's versions write differently, beside their bits."""
    if isinstance(form, list):
        return [plain(each) for each in form]
    if not isinstance(form, dict):
        return form
    return {name: plain(value) for name, value in form.items() if not (name == "v" and "bits" in form)}


def found(entries: list[Any]) -> dict[str, Any]:
    return {shown(plain(key)): plain(value) for key, value in entries}


@pytest.mark.parametrize("target", Generation, ids=lambda each: each.value)
@pytest.mark.parametrize("source", Generation, ids=lambda each: each.value)
def test_storm_reads_what_each_release_wrote(
    redis: Store, reader: Callable[[Generation], StormReader], source: Generation, target: Generation
) -> None:
    """Where source and target are the same, this shows that the program reads what Storm wrote."""
    dump = STATES[source]
    configs: dict[str, dict[str, str]] = {}
    for name, expected in dump.expected.items():
        if name != UNREADABLE:
            configs[name] = expected.get("provider_config", {})
    load(redis, dump, list(configs))
    if source is not target:
        for config in {str(config): config for config in configs.values()}.values():
            names = [name for name, each in configs.items() if each == config]
            converted(redis, names, target, config=config, in_topology=False)
    entries = reader(target).read(redis.server, configs)
    assert entries.keys() == configs.keys()
    for name in configs:
        assert found(entries[name]) == stated(dump, name), name


@pytest.mark.parametrize("target", Generation, ids=lambda each: each.value)
@pytest.mark.parametrize("source", Generation, ids=lambda each: each.value)
def test_storm_reads_a_word_count_and_its_checkpoint_spout(
    redis: Store, reader: Callable[[Generation], StormReader], source: Generation, target: Generation
) -> None:
    dump = WORD_COUNTS[source]
    names = ["count-3", "count-4", SPOUT]
    load(redis, dump, names)
    if source is not target:
        converted(redis, names, target)
    entries = reader(target).read(redis.server, {name: {} for name in names})
    for name in names:
        assert found(entries[name]) == stated(dump, name), name
