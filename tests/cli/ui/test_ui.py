"""`anchorbolt ui` as a process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from anchorbolt.files import open_folder
from anchorbolt.observe.history.segments import HistoryFiles

ROOT = Path(__file__).resolve().parents[3]
JOB = """
from anchorbolt.bolts import ParquetSink
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder

builder = TopologyBuilder()
builder.set_spout("in", FeederSpout(["word"], [[("a",)]]))
builder.set_bolt("out", ParquetSink("out")).shuffle_grouping("in")
topology = builder.create_topology("words")
"""


def test_the_page_of_a_history_is_shown_until_the_command_is_interrupted(tmp_path: Path) -> None:
    record = {"kind": "wave", "at": 1.0, "generation": 1, "txid": 7, "executed": {"count": 3}}
    HistoryFiles(open_folder(str(tmp_path)), generation=1).write([record])
    command = [sys.executable, "-m", "anchorbolt", "ui", str(tmp_path), "--ui-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("page: ").strip()
            with urllib.request.urlopen(f"{address}api/v1/topology/history/waves", timeout=30) as answer:
                assert [each["txid"] for each in json.load(answer)["waves"]] == [7]
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_port_in_use_costs_no_run(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "anchorbolt", "run", "job.py:topology", "--ui-port", port]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 2
    assert b"topology.ui.port" in done.stderr
    assert not (tmp_path / "anchorbolt-data").exists()


def test_a_location_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anchorbolt", "ui", str(tmp_path / "none")]
    assert subprocess.run(command, capture_output=True).returncode == 2
