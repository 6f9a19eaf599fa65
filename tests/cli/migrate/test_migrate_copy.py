"""`anchorbolt migrate copy`: from one store to another as a user does it, once with Spark on both sides."""

import json
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.cli.command import Command, run_arguments
from tests.cli.conftest import count_words, invoke, options, redis_settings, write_conf
from tests.examples.conftest import WORD_COUNT
from tests.migration_tools.storm_data import storm_1_2, words
from tests.support.redis_server import RedisServer

copy = partial(invoke, "migrate", "copy")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The configuration of a word count that has ended."""
    path = write_conf(tmp_path / "from.json", tmp_path / "from")
    count_words(path, "a b a")
    return path


def test_a_topology_is_copied_and_reported(source: Path, tmp_path: Path) -> None:
    target = write_conf(tmp_path / "to.json", tmp_path / "to")
    ends = ("--from", str(source), "--to", str(target))
    dry = copy(*ends, "--topology", "words", "--dry-run")
    assert (dry.exit_code, "nothing was written" in dry.stdout) == (0, True)
    assert not (tmp_path / "to").exists()
    done = copy(*ends, "--topology", "words", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert sum(each["entries"] for each in report["namespaces"]) == 2
    assert (report["txid"], report["is_dry_run"]) == (0, False)
    again = copy(*ends, "--topology", "words")
    assert (again.exit_code, again.stdout.count("already there, equal")) == (0, len(report["namespaces"]))


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
    source = options(redis_settings(redis_database), "--from-set")
    for more in ((), ("--dry-run",)):
        result = copy(*source, "--to", str(target), "--namespace", "words-1", *more)
        assert (result.exit_code, "Storm" in result.stderr) == (4, True), result.output
    assert not list((tmp_path / "to").glob("*"))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_readmes_job_goes_on_from_sqlite_in_redis(tmp_path: Path, redis_database: RedisServer) -> None:
    texts = ["to be or not to be\n", "to do or not to do\n"]
    redis = redis_settings(redis_database)
    folder = tmp_path / "in"
    folder.mkdir()

    def run(*settings: str) -> Command:
        job = f"{WORD_COUNT / 'job.py'}:topology"
        given = ("--until-empty", "--master", "local[2]", "--set", f"word_count.input={folder}", *settings)
        with closing(Command(run_arguments(job, *given), directory=tmp_path)) as command:
            code = command.end()
        assert code == 0, repr(command)
        return command

    (folder / "0.txt").write_text(texts[0])
    assert "recovery: started" in run().out
    directory = f"topology.state.provider.config.directory={tmp_path / 'anchorbolt-data' / 'state'}"
    copied = copy("--from-set", directory, *options(redis, "--to-set"), "--topology", "word-count", "--json")
    assert copied.exit_code == 0, copied.output
    (folder / "1.txt").write_text(texts[1])
    second = run(*options(redis))
    assert "recovery: resumed; the state is at txid 0 (generation 2" in second.out
    counts: Counter[str] = Counter()
    for namespace in json.loads(copied.stdout)["namespaces"]:
        for line in invoke("state", "scan", namespace["namespace"], "--json", *options(redis)).stdout.splitlines():
            counts[json.loads(line)["key"]] += json.loads(line)["value"]
    assert counts == Counter(" ".join(texts).split())
