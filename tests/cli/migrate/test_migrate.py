"""`anchorbolt migrate …`: options, what is shown, exit codes, and where the password may be."""

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from anchorbolt.cli.work_progress import WorkProgress
from tests.cli.command import ROOT, Command
from tests.cli.conftest import invoke
from tests.conftest import StartRedis
from tests.migration_tools.storm_data import storm_1_1, storm_1_2, words
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer

CONVERT = "base64-to-binary"

run = partial(invoke, "migrate")


def run_storms(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the module that is called as Storm's own tool."""
    return subprocess.run(
        [sys.executable, "-m", "anchorbolt.migration_tools.base64_to_binary", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        timeout=120,
    )


def options_of(server: RedisServer) -> list[str]:
    return ["-h", server.host, "-p", str(server.port)]


def put_words(server: RedisServer, counts: dict[str, int], database: int = 0) -> None:
    """Write hashes of Storm 1.1, each of so many words."""
    with server.client(db=database) as client:
        for name, count in counts.items():
            client.hset(name, mapping=dict(storm_1_1(words(count))))


@pytest.mark.parametrize("options", ["-h -p -d -n", "--host --port --dbnum --namespace"])
def test_storms_own_options_do_what_they_do_there(redis_database: RedisServer, options: str) -> None:
    host, port, database, namespace = options.split()
    put_words(redis_database, {"words-1": 9, "words-2": 9}, database=3)
    with redis_database.client(db=3) as client:
        place = [host, redis_database.host, port, str(redis_database.port), database, "3"]
        done = run_storms(*place, namespace, "words-1", namespace, "words-2")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == (
            "words-1: converted, 9 entries; words-1_old is kept\nwords-2: converted, 9 entries; words-2_old is kept\n"
        )
        assert client.hgetall("words-1") == client.hgetall("words-2") == storm_1_2(words(9))


def test_host_and_port_default_to_localhost_and_6379_and_a_namespace_is_required() -> None:
    shown = run_storms("--help").stdout
    for option in ("[default: localhost]", "[default: 6379]", "[required]", "-h", "--include-checkpoint-spout"):
        assert option in shown
    assert "requires an argument" in run_storms("-n", "words-1", "-h").stderr  # -h is not help
    done = run(CONVERT)
    assert (done.exit_code, "--namespace" in done.stderr) == (2, True)


def test_json_holds_what_was_done_and_what_was_not(redis_database: RedisServer) -> None:
    put_words(redis_database, {"words-1": 9, "$checkpointspout-5": 1})
    with redis_database.client() as client:
        client.hset("words-2", mapping={"-": "-"})
    done = run(CONVERT, *options_of(redis_database), "-n", "words-1", "-n", "words-2", "--json", "--dry-run")
    assert done.exit_code == 4
    said = json.loads(done.stdout)
    assert (said["done"], said["dry_run"]) == (False, True)
    assert "$checkpointspout-5" in said["warnings"][0]
    assert "warning: $checkpointspout-5" in done.stderr
    first, second = said["namespaces"]
    assert first["error"] is None
    assert first["hashes"] == [
        {
            "key": "words-1",
            "action": "would be converted",
            "entries": 9,
            "content": "storm-1.1",
            "kept_as": "words-1_old",
            "note": "",
        }
    ]
    assert "field '-' is not Base64" in second["error"]
    assert "words-2: not done." in done.stderr


def test_what_fails_as_a_whole_is_json_too() -> None:
    for command in (CONVERT, "undo"):
        ended = run(command, "-n", "a-1", "-p", "1", "--json")
        assert ended.exit_code == 4
        content = json.loads(ended.stdout)
        assert content["done"] is False
        assert "cannot be reached" in content["error"]


def test_a_name_does_not_control_the_terminal(redis_database: RedisServer) -> None:
    ended = run(CONVERT, *options_of(redis_database), "-n", "a\x1b[31m-1")
    assert ended.exit_code == 4
    assert "\x1b" not in ended.stderr
    assert r"a\x1b[31m-1" in ended.stderr


def test_the_way_there_and_back(redis_database: RedisServer) -> None:
    place = [*options_of(redis_database), "-n", "words-1"]
    put_words(redis_database, {"words-1": 9})
    with redis_database.client() as client:
        assert run(CONVERT, *place, "--verify").exit_code == 4
        assert run(CONVERT, *place, "--wrapper", "keep").exit_code == 0
        verified = run(CONVERT, *place, "--verify")
        assert verified.exit_code == 0
        assert "equal to the conversion of its backup, 9 entries" in verified.stdout
        client.hset("words-1", "new", "1")
        refused = run("undo", *place)
        assert refused.exit_code == 4
        assert "--keep-changed" in refused.stderr
        assert run("undo", *place, "--keep-changed").exit_code == 0
        assert client.hgetall("words-1") == storm_1_1(words(9))
        assert run(CONVERT, *place).exit_code == 0
        assert run("discard-backup", *place).exit_code == 0
        assert {key for key in client.scan_iter() if b"_old" in key} == set()


def test_a_password_comes_from_everywhere_and_is_shown_nowhere(start_redis: StartRedis, tmp_path: Path) -> None:
    server = start_redis(password="a-secret-word")
    password_file = tmp_path / "password"
    password_file.write_text("a-secret-word\n")
    put_words(server, {"words-1": 9})
    place = [*options_of(server), "-n", "words-1"]
    for how, stdin in (
        (["--password-env", "REDIS_WORD"], ""),
        (["--password-file", str(password_file)], ""),
        (["--password", "-"], "a-secret-word\n"),
    ):
        done = run(CONVERT, *place, *how, stdin=stdin, REDIS_WORD="a-secret-word")
        assert (done.exit_code, done.stderr) == (0, ""), how
    done = run(CONVERT, *place, "--password", "a-secret-word")
    assert done.exit_code == 0
    assert "use --password-env NAME" in done.stderr
    assert "a-secret-word" not in done.output
    for how, said in (
        ([], "refused the login"),
        (["--password-env", "NOT_SET"], "NOT_SET, which is not set"),
        (["--password-file", "nowhere"], "cannot be read"),
        (["--password-file", "password", "--password-env", "X"], "use one of them"),
        (["--tls-key", "key.pem"], "--tls-cert"),
        (["--tls-ca", "nowhere.pem"], "nowhere.pem cannot be read"),
        (["--cluster", "-d", "1"], "leave out --dbnum"),
    ):
        done = run(CONVERT, *place, *how)
        assert (done.exit_code, said in done.stderr) == (2, True), (how, done.stderr)


def test_a_redis_cluster_over_its_option(empty_redis_cluster: RedisCluster) -> None:
    node = empty_redis_cluster.replicas[0]
    with empty_redis_cluster.master_of("words-1").client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(9))))
        done = run(CONVERT, "-h", node.host, "-p", str(node.port), "--cluster", "-n", "words-1")
        assert done.exit_code == 0, done.stderr
        assert client.hgetall("words-1") == storm_1_2(words(9))


def process(server: RedisServer, directory: Path, *names: str, terminal: bool = False) -> Command:
    given = [part for name in names for part in ("-n", name)]
    arguments = [sys.executable, "-m", "anchorbolt", "migrate", CONVERT, *options_of(server), *given]
    return Command(arguments, directory=directory, terminal=terminal)


def test_ctrl_c_reports_what_was_done_before_it(redis_database: RedisServer, tmp_path: Path) -> None:
    put_words(redis_database, {"words-1": 9, "words-2": 60_000, "words-3": 9})
    with (
        redis_database.client() as client,
        closing(process(redis_database, tmp_path, "words-1", "words-2", "words-3")) as command,
    ):
        while not any(b"words-2$anchorbolt$" in key for key in client.scan_iter()):
            assert not command.has_ended, repr(command)
        command.send(signal.SIGINT)
        code = command.end()
        assert "words-1: converted, 9 entries; words-1_old is kept" in command.out
        if code == 130:  # or it has ended at that very moment
            assert "words-2: not done. words-2 was interrupted" in command.err
            assert "words-3: not done. words-3 was not tried, because the command was interrupted" in command.err
            assert set(client.scan_iter()) == {b"words-1", b"words-1_old", b"words-2", b"words-3"}


def test_a_terminal_shows_a_bar_and_the_result(redis_database: RedisServer, tmp_path: Path) -> None:
    put_words(redis_database, {"words-1": 60_000})
    with closing(process(redis_database, tmp_path, "words-1", terminal=True)) as command:
        assert command.end() == 0
        assert "converting words-1" in command.out
        assert "/60000" in command.out
        assert "words-1: converted, 60,000 entries; words-1_old is kept" in command.out


def test_elsewhere_a_line_every_ten_seconds_says_rate_and_time_left() -> None:
    now = [0.0]
    written = io.StringIO()
    progress = WorkProgress(Console(file=written), lambda: now[0])
    progress.begin("converting words-1", 4_000)
    for _ in range(4):
        now[0] += 6
        progress.advance(1_000)
    assert written.getvalue() == (
        "converting words-1: 2,000 of 4,000, 167 entries/s, 12 s left\n"
        "converting words-1: 4,000 of 4,000, 167 entries/s, 0 s left\n"
    )
