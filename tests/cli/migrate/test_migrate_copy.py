"""`anchorbolt migrate copy`: from one store to another as a user does it."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import count_words, invoke, options, write_conf
from tests.migration_tools.storm_data import storm_1_2, words
from tests.servers.redis_server import RedisServer
from tests.support.stores import settings_of

copy = partial(invoke, "migrate", "copy")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The configuration of a word count that has ended."""
    path = write_conf(tmp_path / "from.json", tmp_path / "from")
    count_words(path, "a b a")
    return path


def test_a_topology_is_copied_reported_and_continued(source: Path, tmp_path: Path, redis_database: RedisServer) -> None:
    target = write_conf(tmp_path / "to.json", redis_database)
    ends = ("--from", str(source), "--to", str(target))
    dry = copy(*ends, "--topology", "words", "--dry-run")
    assert (dry.exit_code, "nothing was written" in dry.stdout) == (0, True)
    with redis_database.client() as client:
        assert client.dbsize() == 0
    done = copy(*ends, "--topology", "words", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert sum(each["entries"] for each in report["namespaces"]) == 2
    assert (report["txid"], report["is_dry_run"]) == (0, False)
    again = copy(*ends, "--topology", "words")
    assert (again.exit_code, again.stdout.count("already there, equal")) == (0, len(report["namespaces"]))
    handle = count_words(target, "b c")
    assert (handle.recovery.action, handle.recovery.txid, handle.recovery.generation) == ("resumed", 0, 2)
    assert handle.state("count") == {"a": 2, "b": 2, "c": 1}


def test_one_namespace_is_copied_by_settings_alone(source: Path, tmp_path: Path) -> None:
    name = next(path.stem.replace("@", ":") for path in (tmp_path / "from").glob("words@count-*.sqlite"))
    ends = (
        *("--from", str(source), "--to-set", "topology.state.provider=sqlite"),
        *("--to-set", f"topology.state.provider.config.directory={tmp_path / 'to'}"),
    )
    assert copy(*ends, "--namespace", name).exit_code == 0
    assert [path.name for path in (tmp_path / "to").glob("*.sqlite")] == [f"{name.replace(':', '@')}.sqlite"]


def test_what_is_refused_has_an_exit_code_and_a_reason(source: Path, tmp_path: Path) -> None:
    target = write_conf(tmp_path / "to.json", tmp_path / "to")
    ends = ("--from", str(source), "--to", str(target))
    other = write_conf(tmp_path / "o.json", tmp_path / "o", **{"topology.state.namespace.prefix": "x"})
    for arguments, code, reason in (
        (ends, 2, "either --topology"),
        ((*ends, "--topology", "a", "--namespace", "b"), 2, "either --topology"),
        ((*ends, "--topology", "none"), 4, "no decision record of topology 'none'"),
        ((*ends, "--namespace", "none"), 4, "no committed data"),
        ((*ends, "--namespace", "n", "--take-fence"), 2, "for --topology only"),
        (("--from", str(source), "--to", str(source), "--topology", "words"), 2, "the same"),
        (("--from", str(source), "--to", str(other), "--topology", "words"), 2, "namespace.prefix differs"),
    ):
        result = copy(*arguments)
        assert (result.exit_code, reason in result.stderr, result.stdout) == (code, True, ""), result.output


def test_a_namespace_of_storms_is_not_taken_for_one_of_ours(tmp_path: Path, redis_database: RedisServer) -> None:
    with redis_database.client() as client:
        client.hset("words-1", mapping=dict(storm_1_2(words(9))))
        client.hset("words-1$txid", mapping={"commit": "5", "prepare": "5"})
    target = write_conf(tmp_path / "to.json", tmp_path / "to")
    source = options(settings_of(redis_database), "--from-set")
    for more in ((), ("--dry-run",)):
        result = copy(*source, "--to", str(target), "--namespace", "words-1", *more)
        assert (result.exit_code, "Storm" in result.stderr) == (4, True), result.output
    assert not list((tmp_path / "to").glob("*"))
