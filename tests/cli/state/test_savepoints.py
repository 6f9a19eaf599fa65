"""`anchorbolt state savepoint`, `savepoints`, `verify`, `restore`, `fork` and `discard`."""

import json
from pathlib import Path

from anchorbolt.cli.exit_codes import STATE_REFUSED
from tests.cli.conftest import count_words, invoke, write_conf

CONF, OTHER = ("--conf", "conf.json"), ("--conf", "other.json")


def test_a_savepoint_is_taken_verified_restored_and_forked(here: Path) -> None:
    conf = {"topology.checkpoint.location": str(here / "checkpoint")}
    count_words(write_conf(here / "conf.json", here / "state", **conf), "a b a", "c d e f g h")
    write_conf(here / "other.json", here / "other", **{"topology.checkpoint.location": str(here / "other-checkpoint")})
    taken = json.loads(invoke("state", "savepoint", "words", *CONF, "--name", "one", "--json").stdout)
    assert (taken["topology"], taken["savepoint"]) == ("words", str(here / "checkpoint-savepoints" / "one"))
    assert invoke("state", "savepoint", "words", *CONF, "--name", "one").exit_code == 2
    listed = [json.loads(line) for line in invoke("state", "savepoints", "words", *CONF, "--json").stdout.splitlines()]
    assert listed == [taken]
    assert invoke("state", "verify", taken["savepoint"]).exit_code == 0
    assert invoke("state", "restore", taken["savepoint"], *CONF).exit_code == STATE_REFUSED
    restored = invoke("state", "restore", taken["savepoint"], *OTHER, "--rescale", "count=3", "--json")
    assert json.loads(restored.stdout)["parallelism"] == {"count": 3}
    found = invoke("state", "get", "words", "count", "a", *OTHER, "--json")
    assert json.loads(found.stdout)["value"] == 2
    fork = ("--set", f"topology.checkpoint.location={here / 'fork-checkpoint'}")
    assert invoke("state", "fork", taken["savepoint"], "fork", *CONF, *fork).exit_code == 0
    found = invoke("state", "get", "fork", "count", "a", *CONF, "--json")
    assert json.loads(found.stdout)["value"] == 2
    assert invoke("state", "savepoints", "fork", *CONF, "--json").stdout == ""
    assert "words" in invoke("state", "savepoints", "fork", *CONF).stderr
    assert "not finished" not in invoke("state", "verify", str(here / "state")).stderr
    state = next(Path(taken["savepoint"]).rglob("*.parquet"))
    state.write_bytes(state.read_bytes()[:-1])
    assert invoke("state", "verify", taken["savepoint"]).exit_code == STATE_REFUSED
    new = ("--set", f"topology.checkpoint.location={here / 'new-checkpoint'}")
    for dry_run in ((), ("--dry-run",)):
        assert invoke("state", "fork", taken["savepoint"], "new", *CONF, *new, *dry_run).exit_code == STATE_REFUSED
    assert not (here / "new-checkpoint").exists()
    assert invoke("state", "savepoint", "words", *CONF, "--name", "two").exit_code == 0
    Path(taken["savepoint"], "manifest.json").write_bytes(b"{")
    listed_beside = invoke("state", "savepoints", "words", *CONF, "--json")
    assert [json.loads(line)["savepoint"][-4:] for line in listed_beside.stdout.splitlines()] == ["/two"]
    assert listed_beside.exit_code == STATE_REFUSED
    assert "one" in listed_beside.stderr
    twice = ("--rescale", "count=2", "--rescale", "count=3")
    assert invoke("state", "fork", f"{taken['savepoint'][:-3]}two", "new", *CONF, *new, *twice).exit_code == 2
    assert invoke("state", "discard", taken["savepoint"]).exit_code == 0
    assert not Path(taken["savepoint"]).exists()
    assert invoke("state", "verify", taken["savepoint"]).exit_code == 2
