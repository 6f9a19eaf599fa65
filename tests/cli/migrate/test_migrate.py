"""`anchorbolt migrate …` as a process: options, what is shown, exit codes, and where the password may be."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.cli.work_progress import Lines
from tests.cli.command import ROOT, Command
from tests.conftest import StartRedis
from tests.migration_tools.storm_data import storm_1_1, storm_1_2, words
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import RedisServer

Run = Callable[..., subprocess.CompletedProcess[str]]
ANCHORBOLT = ["-m", "anchorbolt", "migrate", "base64-to-binary"]
STORMS = ["-m", "anchorbolt.migration_tools.base64_to_binary"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run Python with these arguments, and wait for its end."""

    def run(*arguments: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            timeout=120,
        )

    return run


@pytest.mark.parametrize("command", [ANCHORBOLT, STORMS])
@pytest.mark.parametrize(
    ("host", "port", "database", "namespace"),
    [("-h", "-p", "-d", "-n"), ("--host", "--port", "--dbnum", "--namespace")],
)
def test_storms_own_options_do_what_they_do_there(
    redis_database: RedisServer, run: Run, command: list[str], host: str, port: str, database: str, namespace: str
) -> None:
    with redis_database.client(db=3) as client:
        for name in ("words-1", "words-2"):
            client.hset(name, mapping=dict(storm_1_1(words(9))))
        place = [host, redis_database.host, port, str(redis_database.port), database, "3"]
        done = run(*command, *place, namespace, "words-1", namespace, "words-2")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert done.stdout == (
            "words-1: converted, 9 entries; words-1_old is kept\nwords-2: converted, 9 entries; words-2_old is kept\n"
        )
        assert client.hgetall("words-1") == client.hgetall("words-2") == storm_1_2(words(9))


def test_host_and_port_default_to_localhost_and_6379_and_a_namespace_is_required(run: Run) -> None:
    shown = run(*STORMS, "--help", COLUMNS="200").stdout
    for option in ("[default: localhost]", "[default: 6379]", "[required]", "-h", "--include-checkpoint-spout"):
        assert option in shown
    assert "requires an argument" in run(*STORMS, "-n", "words-1", "-h").stderr  # -h is not help
    done = run(*STORMS)
    assert (done.returncode, "--namespace" in done.stderr) == (2, True)


def test_json_holds_what_was_done_and_what_was_not(redis_database: RedisServer, run: Run) -> None:
    with redis_database.client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(9))))
        client.hset("words-2", mapping={"-": "-"})
        client.hset("$checkpointspout-5", mapping=dict(storm_1_1(words(1))))
    place = ["-h", redis_database.host, "-p", str(redis_database.port), "-n", "words-1", "-n", "words-2"]
    done = run(*ANCHORBOLT, *place, "--json", "--dry-run")
    assert done.returncode == 4
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


def test_what_fails_as_a_whole_is_json_too(run: Run, tmp_path: Path) -> None:
    for command in (["migrate", "base64-to-binary", "-n", "a-1"], ["migrate", "undo", "-n", "a-1"]):
        ended = run("-m", "anchorbolt", *command, "-p", "1", "--json")
        assert ended.returncode == 4
        content = json.loads(ended.stdout)
        assert content["done"] is False
        assert "cannot be reached" in content["error"]
    ended = run("-m", "anchorbolt", "state", "explain", "a", "--set", "topology.state.provider=memory", "--json")
    assert ended.returncode == 2
    assert "topology.state.provider is memory" in json.loads(ended.stdout)["error"]


def test_a_name_does_not_control_the_terminal(redis_database: RedisServer, run: Run) -> None:
    place = ["-p", str(redis_database.port)]
    ended = run(*ANCHORBOLT, *place, "-n", "a\x1b[31m-1")
    assert ended.returncode == 4
    assert "\x1b" not in ended.stderr
    assert r"a\x1b[31m-1" in ended.stderr


@pytest.mark.slow
def test_the_way_there_and_back(redis_database: RedisServer, run: Run) -> None:
    place = ["-h", redis_database.host, "-p", str(redis_database.port), "-n", "words-1"]
    with redis_database.client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(9))))
        assert run(*ANCHORBOLT, *place, "--verify").returncode == 4
        assert run(*ANCHORBOLT, *place, "--wrapper", "keep").returncode == 0
        verified = run(*ANCHORBOLT, *place, "--verify")
        assert verified.returncode == 0
        assert "equal to the conversion of its backup, 9 entries" in verified.stdout
        client.hset("words-1", "new", "1")
        refused = run("-m", "anchorbolt", "migrate", "undo", *place)
        assert refused.returncode == 4
        assert "--keep-changed" in refused.stderr
        assert run("-m", "anchorbolt", "migrate", "undo", *place, "--keep-changed").returncode == 0
        assert client.hgetall("words-1") == storm_1_1(words(9))
        assert run(*ANCHORBOLT, *place).returncode == 0
        assert run("-m", "anchorbolt", "migrate", "discard-backup", *place).returncode == 0
        assert {key for key in client.scan_iter() if b"_old" in key} == set()


@pytest.mark.slow
def test_a_password_comes_from_everywhere_and_is_shown_nowhere(
    start_redis: StartRedis, run: Run, tmp_path: Path
) -> None:
    server = start_redis(password="a-secret-word")
    (tmp_path / "password").write_text("a-secret-word\n")
    with server.client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(9))))
    place = ["-h", server.host, "-p", str(server.port), "-n", "words-1"]
    for how, env, stdin in (
        (["--password-env", "REDIS_WORD"], {"REDIS_WORD": "a-secret-word"}, ""),
        (["--password-file", "password"], {}, ""),
        (["--password", "-"], {}, "a-secret-word\n"),
    ):
        done = run(*ANCHORBOLT, *place, *how, stdin=stdin, **env)
        assert (done.returncode, done.stderr) == (0, ""), how
    done = run(*ANCHORBOLT, *place, "--password", "a-secret-word")
    assert done.returncode == 0
    assert "use --password-env NAME" in done.stderr
    assert "a-secret-word" not in done.stdout + done.stderr
    for how, said in (
        ([], "refused the login"),
        (["--password-env", "NOT_SET"], "NOT_SET, which is not set"),
        (["--password-file", "nowhere"], "cannot be read"),
        (["--password-file", "password", "--password-env", "X"], "use one of them"),
        (["--tls-key", "key.pem"], "--tls-cert"),
        (["--tls-ca", "nowhere.pem"], "nowhere.pem cannot be read"),
        (["--cluster", "-d", "1"], "leave out --dbnum"),
    ):
        done = run(*ANCHORBOLT, *place, *how)
        assert (done.returncode, said in done.stderr) == (2, True), (how, done.stderr)


def test_a_redis_cluster_over_its_option(empty_redis_cluster: RedisCluster, run: Run) -> None:
    node = empty_redis_cluster.replicas[0]
    with empty_redis_cluster.master_of("words-1").client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(9))))
        done = run(*ANCHORBOLT, "-h", node.host, "-p", str(node.port), "--cluster", "-n", "words-1")
        assert done.returncode == 0, done.stderr
        assert client.hgetall("words-1") == storm_1_2(words(9))


def test_ctrl_c_reports_what_was_done_before_it(redis_database: RedisServer, tmp_path: Path) -> None:
    with redis_database.client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(9))))
        client.hset("words-2", mapping=dict(storm_1_1(words(60_000))))
        client.hset("words-3", mapping=dict(storm_1_1(words(9))))
        place = ["-h", redis_database.host, "-p", str(redis_database.port)]
        names = ["-n", "words-1", "-n", "words-2", "-n", "words-3"]
        with closing(Command([sys.executable, *ANCHORBOLT, *place, *names], directory=tmp_path)) as command:
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
    with redis_database.client() as client:
        client.hset("words-1", mapping=dict(storm_1_1(words(60_000))))
    place = ["-h", redis_database.host, "-p", str(redis_database.port), "-n", "words-1"]
    with closing(Command([sys.executable, *ANCHORBOLT, *place], directory=tmp_path, terminal=True)) as command:
        assert command.end() == 0
        assert "converting words-1" in command.out
        assert "/60000" in command.out
        assert "words-1: converted, 60,000 entries; words-1_old is kept" in command.out


def test_elsewhere_a_line_every_ten_seconds_says_rate_and_time_left() -> None:
    now = [0.0]
    lines: list[str] = []
    progress = Lines(lines.append, lambda: now[0])
    progress.begin("converting words-1", 4_000)
    for _ in range(4):
        now[0] += 6
        progress.advance(1_000)
    assert lines == [
        "converting words-1: 2,000 of 4,000, 167 entries/s, 12 s left\n",
        "converting words-1: 4,000 of 4,000, 167 entries/s, 0 s left\n",
    ]
