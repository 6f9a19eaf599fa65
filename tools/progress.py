"""Set-up's output on the terminal, and the running of other programs. Uses the standard library only."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

# Lines of pip and apt that show progress.
_SIGNS_OF_LIFE = ("Downloading", "Building", "Installing collected", "Get:", "Setting up")


class SetUpError(Exception):
    """Set-up failed; the message ends with what the user can do."""


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"set-up: {text}", flush=True)


@contextmanager
def optional(server: str) -> Iterator[None]:
    """Only print a failure to get what a server needs: the tests of that server are then skipped, and all others run.

    Raises:
        SetUpError: in CI only, where a skipped test is a failure.
    """
    try:
        yield
    except SetUpError as error:
        if os.environ.get("CI", "").lower() in {"true", "1", "yes"}:
            raise
        say(f"going on without {server}, its tests will be skipped: {error}")


def run(command: Sequence[str | Path], *, log: Path, on_failure: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command whose output goes to the file `log`, with a line on the terminal for each larger step.

    Args:
        command: the program and its arguments.
        log: the file to append the whole output to.
        on_failure: what the user can do, for the error's last line.
        env: variables to add to the present environment.

    Raises:
        SetUpError: the command could not be started or failed; the message holds the end of its output.
    """
    lines: list[str] = []
    words = [str(word) for word in command]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(env or {})},
        )
    except OSError as error:
        raise SetUpError(f"cannot start {words[0]}: {error}. {on_failure}") from error
    assert process.stdout is not None
    width = shutil.get_terminal_size().columns - 4
    with process, open(log, "a") as file:
        for line in process.stdout:
            file.write(line)
            lines.append(line)
            if line.strip().startswith(_SIGNS_OF_LIFE):
                print(f"  {line.strip()[:width]}", flush=True)
    if process.returncode != 0:
        sys.stderr.write("".join(lines[-25:]))
        raise SetUpError(f"`{' '.join(words)}` failed with status {process.returncode} ({log}). {on_failure}")


def is_root_on_debian() -> bool:
    """Whether this process may install Debian's packages."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(package: str, *, log: Path, on_failure: str) -> None:
    """Install a Debian package; no service of it is started.

    Raises:
        SetUpError: apt-get failed.
    """
    say(f"installing Debian's package {package}")
    # RUNLEVEL=1 keeps a package's service, such as a Redis on the standard port, from being started.
    env = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    wait_for_other_apt = ["-o", "DPkg::Lock::Timeout=120"]
    run(["apt-get", *wait_for_other_apt, "update"], log=log, on_failure=on_failure, env=env)
    options = ["--yes", "--no-install-recommends"]
    run(["apt-get", *wait_for_other_apt, "install", *options, package], log=log, on_failure=on_failure, env=env)
