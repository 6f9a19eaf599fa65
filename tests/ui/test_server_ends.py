"""The end of a server: closed at once, or left open until Python ends."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from anchorbolt.ui import UiServer

ROOT = Path(__file__).resolve().parents[2]

# Prints the names of the threads that run when all else that is called at the exit has been called.
LEAVES_TWO_OPEN = """
import atexit, threading
atexit.register(lambda: print([thread.name for thread in threading.enumerate()]))
from anchorbolt.ui import UiServer
left = [UiServer("words", port=0), UiServer("words", port=0)]
UiServer("words", port=0).close()
"""


def test_a_server_that_is_closed_while_it_starts_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            UiServer("words", port=0).close()
    assert not caplog.records


@pytest.mark.slow
def test_a_server_that_nobody_closed_ends_before_python_does() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_TWO_OPEN], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "['MainThread']\n", "")
