"""The migration guide works as printed, on state that Storm 1.1.0 wrote."""

from pathlib import Path

import pytest

from tests.docs.conftest import TypeCommands
from tests.docs.pages import read_page
from tests.support.redis_server import RedisServer
from tests.support.storm_fixtures import dump


@pytest.mark.thorough
def test_the_guide_works_as_printed_from_beginning_to_end(
    directory: Path, type_commands: TypeCommands, redis_database: RedisServer
) -> None:
    page = read_page("docs/migrating_from_storm.md")
    before, after = dump("storm-1.1.0-wordcount").hashes, dump("storm-1.2.4-wordcount").hashes
    with redis_database.client() as client:
        for key, entries in before.items():
            client.hset(key, mapping=dict(entries))
        # What a test cannot take as printed: the port may be in use on this machine.
        place = f"-h {redis_database.host} -p {redis_database.port} "
        commands = [
            text.replace("-n count-3", f"{place}-n count-3").replace("redis-cli ", f"redis-cli {place}")
            for text in page.commands(without=set())
        ]
        seen = type_commands(commands)
        assert [line.pattern for line in page.shown() if not line.search(seen)] == [], seen
        assert {key.decode(): client.hgetall(key) for key in client.scan_iter()} == {
            **after,
            "types-8": before["types-8"],  # the page leaves it out
        }
