"""The log of a worker's process: what it tells of repeats."""

import json
import subprocess
import sys

REPEATS = """
import logging
from anchorbolt.engine.spark.worker_log import set_up_worker_log, tell_left_out
from anchorbolt.faults.points import at_task

set_up_worker_log()
at_task("count", 3, 7)
for _ in range(30):
    logging.getLogger("jobs").warning("again")
at_task("other", 0, 7)
tell_left_out()
"""


def test_a_worker_tells_when_the_run_ends_what_it_has_left_out() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", REPEATS],
        env={"ANCHORBOLT_LOG_FORMAT": "json", "PYTHONPATH": ":".join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    events = [json.loads(line) for line in ended.stderr.splitlines()]
    assert [(event["component"], event["task"], event.get("left_out")) for event in events] == [
        ("count", 3, None),
        ("count", 3, 28),
    ]
