"""Without a token nothing but loopback reads: tried on another address of a machine, in a network of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = "198.51.100.7"  # of TEST-NET-2, which nobody has
TOKEN = "0123456789abcdef-token"

# Runs where the machine has the loopback address and OUTSIDE; prints what a client gets of each.
TRIES = f"""
import json, subprocess, urllib.error, urllib.request
from anchorbolt.config import Secret
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import ConfigError
from anchorbolt.ui import UiServer
from tests.engine.jobs import word_count
from anchorbolt.testing import FeederSpout

subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["ip", "address", "add", "{OUTSIDE}/32", "dev", "lo"], check=True)

def read(host, port, path, **headers):
    request = urllib.request.Request(f"http://{{host}}:{{port}}{{path}}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code
    except urllib.error.URLError as error:
        return type(error.reason).__name__

def port_of(address):
    return address.split(":")[2].partition("/")[0]

def refusal(**more):
    try:
        UiServer("words", port=0, **more).close()
    except ConfigError as error:
        return error.key
    return None

conf = {{"topology.state.provider": "memory", "topology.metrics.port": 0}}
spout = FeederSpout(["sentence"], [[("a b",)]])
handle = LocalCluster().submit(word_count(spout, name="words", parallelism=1), conf, until_empty=False)
metrics = port_of(handle.metrics_address)
page = UiServer("words", port=0)
guarded = UiServer("words", port=0, host="0.0.0.0", token=Secret("{TOKEN}"))
summary = "/api/v1/topology/summary"
print(json.dumps({{
    "metrics": [read("127.0.0.1", metrics, "/metrics"), read("{OUTSIDE}", metrics, "/metrics")],
    "page": [read("127.0.0.1", port_of(page.address), summary), read("{OUTSIDE}", port_of(page.address), summary)],
    "with a token": [
        read("{OUTSIDE}", port_of(guarded.address), summary),
        read("{OUTSIDE}", port_of(guarded.address), "/metrics"),
        read("127.0.0.1", port_of(guarded.address), summary),
        read("{OUTSIDE}", port_of(guarded.address), summary, Authorization="Bearer {TOKEN}"),
    ],
    "refused": [refusal(host="0.0.0.0"), refusal(host="::"), refusal(host="{OUTSIDE}"), refusal(host="127.0.0.1")],
}}))
"""


@pytest.mark.slow
@pytest.mark.optional_in_ci
def test_another_address_of_the_machine_reads_nothing_without_the_token() -> None:
    own_network = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("a network of its own needs Linux, `unshare` and `ip`")
    tried = subprocess.run([*own_network, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"this machine allows no network of its own: {tried.stderr.strip()}")
    done = subprocess.run(
        [*own_network, sys.executable, "-c", TRIES], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "metrics": [200, "ConnectionRefusedError"],
        "page": [200, "ConnectionRefusedError"],
        "with a token": [401, 401, 401, 200],
        "refused": ["topology.ui.host", "topology.ui.host", "topology.ui.host", None],
    }
