"""The help of every command, and the completion of the shell."""

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import invoke

COMMANDS = ["", "run", "state", "state namespaces", "state get", "state scan", "state explain", "state ttl", "migrate"]
COMMANDS += ["migrate base64-to-binary", "migrate undo", "migrate discard-backup", "migrate copy", "migrate convert"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_is_shown_without_a_type(command: str) -> None:
    shown = invoke(*command.split(), "--help")
    assert shown.exit_code == 0
    assert "--help" in shown.output
    assert "bool" not in shown.output


@pytest.mark.parametrize(("typed", "completed"), [("anchorbolt mig", "migrate"), ("anchorbolt state exp", "explain")])
def test_the_shell_completes_commands(typed: str, completed: str) -> None:
    variables = {"_ANCHORBOLT_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "anchorbolt"], env={**os.environ, **variables}, capture_output=True, text=True
    )
    assert done.stdout.split() == [completed], done.stderr
