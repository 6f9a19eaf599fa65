"""A person who follows a page: an empty directory, and a shell with `anchorbolt` on its path."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.support.spark_jvm import environment

TypeCommands = Callable[[list[str]], str]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where the person types; empty at first."""
    place = tmp_path / "quickstart"
    place.mkdir()
    return place


@pytest.fixture
def type_commands(directory: Path, tmp_path: Path) -> Iterator[TypeCommands]:
    """Type a page's commands, each block in a shell of its own; return what they showed.

    A command that fails is the end of it. What is left of a shell after the test is killed.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    # The command of this checkout, whether it is installed or not; `python` is on the path already (tests/conftest.py).
    (programs / "anchorbolt").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m anchorbolt "$@"\n')
    (programs / "anchorbolt").chmod(0o755)
    # A page shows Spark's UI among the first lines; the other tests run without it.
    with_ui = environment({"spark.ui.enabled": "true"})
    started: list[Command] = []

    def run(scripts: list[str]) -> str:
        for script in scripts:
            shell = ["bash", "-e", "-c", f'PATH="{programs}:$PATH"\n{script}']
            command = Command(shell, directory=directory, env=with_ui)
            started.append(command)
            assert command.end() == 0, repr(command)
        return "".join(command.out for command in started)

    yield run
    for command in started:
        command.close()
