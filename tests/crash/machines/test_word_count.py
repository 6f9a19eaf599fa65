"""A word count on machines that share one directory, or none, with each other and the driver."""

import os
import signal
from pathlib import Path

import pyspark
import pytest

from tests.crash.machines.conftest import MakeRun
from tests.crash.machines.job import PAUSE
from tests.crash.machines.places import Directory
from tests.servers.redis_server import RedisServer

pytestmark = [pytest.mark.timeout(300)]

WAVES = [[f"alpha beta w{number} gamma", f"dog alpha w{number % 3}"] for number in range(4)]
SPARK_SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")


@pytest.mark.thorough
def test_words_and_rows_are_exact_though_a_machine_is_killed_and_comes_back_empty(make_run: MakeRun) -> None:
    run = make_run()
    for wave in WAVES[:2]:
        run.add_input(wave)
    run.add_input([f"alpha {PAUSE} beta"])
    for wave in WAVES[2:]:
        run.add_input(wave)
    run.start()
    machine = run.paused_machine()
    run.cluster.kill(machine)
    run.cluster.start_workers(machine)
    assert run.wait_for_end() == 0, run.drivers[-1].text
    assert run.problems() == []


def test_a_location_that_the_machines_do_not_share_is_refused_before_anything_is_claimed(
    make_run: MakeRun, tmp_path: Path, redis_database: RedisServer
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    run = make_run(Directory(shared, tmp_path / "unshared"))
    for wave in WAVES:
        run.add_input(wave)
    run.start()
    assert run.wait_for_end() == 2, run.drivers[-1].text
    with redis_database.client() as client:
        assert client.dbsize() == 0


@pytest.mark.thorough
def test_a_run_that_waits_for_executors_says_what_it_asked_for_and_ends_at_a_signal(make_run: MakeRun) -> None:
    quick = {"topology.message.timeout.secs": 2, "topology.state.checkpoint.interval.ms": 100}
    run = make_run(spark={"executor-memory": "500g"}, **quick)
    run.add_input(WAVES[0])
    driver = run.start()
    run.wait_for(lambda: "spark.executor.memory=500g" in driver.text)
    os.kill(driver.pid, signal.SIGTERM)
    assert run.wait_for_end() == 0, driver.text
    assert "stopped before the first wave" in driver.text


@pytest.mark.thorough
def test_spark_submit_runs_a_job_in_client_mode(make_run: MakeRun) -> None:
    run = make_run()
    for wave in WAVES:
        run.add_input(wave)
    program = run.job.with_name("submitted.py")
    program.write_text(
        "import json\n"
        "from pathlib import Path\n"
        "from anchorbolt.engine import SparkCluster\n"
        "from wordjob import topology\n"
        "if __name__ == '__main__':\n"
        "    conf = json.loads(Path('conf.json').read_text())\n"
        "    SparkCluster().submit(topology(conf), conf, until_empty=True).await_termination()\n"
    )
    run.start_command([SPARK_SUBMIT, "--master", run.cluster.url, str(program)])
    assert run.wait_for_end() == 0, run.drivers[-1].text
    assert run.problems() == []
