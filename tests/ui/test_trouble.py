"""The page and the metrics of a run in trouble say so within 3 s, and its history afterwards."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED
from anchorbolt.config import load_conf
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.files import open_folder
from anchorbolt.observe.history.records import End
from anchorbolt.observe.history.segments import read_history
from anchorbolt.run.start import RunStart
from anchorbolt.testing import FeederSpout
from anchorbolt.ui import UiServer
from tests.cli.command import wait_until
from tests.conftest import StartRedis
from tests.engine.jobs import word_count
from tests.servers.redis_server import RedisServer
from tests.ui.conftest import Client
from tests.ui.trouble import TOPOLOGY, WITHIN_S, TroubledRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Start = Callable[..., TroubledRun]


@pytest.fixture
def redis(start_redis: StartRedis) -> RedisServer:
    return start_redis()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.thorough)], ids=["local", "spark"])
def start(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> Iterator[Start]:
    """Start a driver in the test's directory; it is ended after the test."""
    with ExitStack() as stack:

        def started(**settings: Any) -> TroubledRun:
            run = TroubledRun(tmp_path, redis.port, on_spark=request.param, **settings)
            stack.enter_context(closing(run.command))
            return run

        yield started


@pytest.mark.thorough
def test_a_poisoned_run_says_so(start: Start) -> None:
    run = start(**{"topology.max.batch.retries": 100_000})
    run.wait_for_commits()
    run.begin("bad")
    run.say_within_3_s(
        lambda now: "a bad tuple" in ((now.get("wave") or {}).get("lastFailure") or ""),
        lambda metrics: metrics["anchorbolt_wave_round"] > 1,
    )


@pytest.mark.thorough
def test_a_throttled_run_says_so(start: Start) -> None:
    run = start()
    run.wait_for_commits()
    run.begin("flood")
    run.say_within_3_s(lambda now: now["throttled"] != "", lambda metrics: metrics["anchorbolt_throttled"] == 1)


def test_a_run_whose_store_is_away_says_so(start: Start, redis: RedisServer) -> None:
    run = start()
    run.wait_for_commits()
    redis.kill()
    run.say_within_3_s(
        lambda now: "the state store" in [each["for"] for each in now["waiting"]],
        lambda metrics: "anchorbolt_waiting_seconds the state store" in metrics,
    )


@pytest.mark.thorough
def test_a_run_whose_store_is_away_before_spark_starts_says_so_and_starts_once_it_is_back(
    start: Start, redis: RedisServer
) -> None:
    redis.kill()
    run = start()
    wait_until(lambda: "metrics: " in run.command.out and "page: " in run.command.out, repr(run.command))
    run.say_within_3_s(
        lambda now: (
            now["status"] == "STARTING"
            and "the state store" in [each["for"] for each in now["waiting"]]
            and "waits for the state store" in now["readyz"]
        ),
        lambda metrics: (
            "anchorbolt_waiting_seconds the state store" in metrics and metrics["anchorbolt_run_status starting"] == 1
        ),
    )
    redis.restart()
    run.wait_for_commits()
    assert run.metrics()["anchorbolt_run_status running"] == 1


@pytest.mark.thorough
@pytest.mark.parametrize("quiet", [False, True], ids=["busy", "idle"])
def test_a_fenced_run_says_so(start: Start, quiet: bool) -> None:
    older = start()
    older.wait_for_commits()
    if quiet:
        older.begin("quiet")
        wait_until(lambda: older.now().get("wave") is None, "it is idle")
    newer = start()
    newer.command.wait_for("recovery: ")
    older.say_within_3_s(lambda now: not now or now["status"] == "FAILED", lambda metrics: not metrics)
    assert older.command.end() == STATE_REFUSED
    ends = [each for each in read_history(open_folder(str(older.location))) if isinstance(each, End)]
    assert [(each.status, each.error) for each in ends] == [("FAILED", "Fenced")]


@pytest.mark.thorough
def test_a_run_that_is_killed_says_nothing_more_and_its_history_has_no_end(start: Start) -> None:
    run = start()
    run.wait_for_commits()
    run.command.send(signal.SIGKILL)
    run.say_within_3_s(lambda now: not now, lambda metrics: not metrics)
    folder = open_folder(str(run.location))
    any_port = load_conf({"topology.ui.port": 0}).settings
    with closing(UiServer.of_history(folder.location, lambda: read_history(folder), any_port)) as server:
        now = Client(server.address).json(f"{TOPOLOGY}/now")
    assert (now["status"], now["isLive"], now["ready"]) == ("UNKNOWN", False, False)
    assert "was killed" in now["reason"]


@pytest.mark.thorough
def test_a_run_whose_workers_are_killed_says_so(tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "kill").touch()
    run = TroubledRun(tmp_path, redis.port, on_spark=True, **{"topology.max.batch.retries": 100_000})
    with closing(run.command):
        wait_until(lambda: run.now().get("status") == "ACTIVE" or run.command.has_ended, repr(run.command))
        wait_until(lambda: not (tmp_path / "kill").exists(), repr(run.command))
        run.say_within_3_s(
            lambda now: "worker process" in str(now["wave"]) or "worker process" in run.failures(),
            lambda metrics: metrics["anchorbolt_wave_round"] > 1 or metrics["anchorbolt_rounds_failed_total"] > 0,
        )


@pytest.mark.thorough
def test_a_run_whose_store_goes_away_before_it_has_recovered_says_so(redis: RedisServer) -> None:
    conf = load_conf(
        {
            "topology.state.provider": "redis",
            "topology.state.provider.config": {"jedisPoolConfig": {"port": redis.port}},
            "topology.metrics.port": 0,
        }
    )
    begun, recovering = threading.Event(), list[RunHandle]()

    def kill_store(handle: RunHandle) -> None:
        recovering.append(handle)
        redis.kill()
        begun.set()

    start = RunStart("words", conf.settings, kill_store)
    topology = word_count(FeederSpout(["sentence"], [[("a b",)]]), name="words", parallelism=1)
    done = list[RunHandle]()
    thread = threading.Thread(target=lambda: done.append(LocalCluster().submit(topology, conf, start=start)))
    thread.start()
    assert begun.wait(60)
    assert start.metrics_address is not None
    with closing(UiServer("words", port=0, start=start)) as server:
        server.show(recovering[0])
        page, metrics = Client(server.address), Client(start.metrics_address)
        wait_until(
            lambda: (
                "waits for the state store" in page.ask("/readyz")[2].decode()
                and 'waits_for="the state store"' in metrics.ask("/metrics")[2].decode()
            ),
            "both say so",
            WITHIN_S,
        )
        redis.restart()
        thread.join(60)
        assert done[0].await_termination(60)
