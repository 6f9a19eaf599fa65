"""Find a Chromium or Chrome, or install Debian's as root; never starts it."""

import shutil
import tempfile
from pathlib import Path

from progress import SetUpError, apt_install, is_root_on_debian, say
from record import Record

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_INSTALL_IT = (
    "Install Chromium or Chrome so that `chromium` or `google-chrome` is on the PATH (Debian: apt-get install "
    "chromium; Fedora: dnf install chromium; macOS: brew install --cask chromium) and run the command again."
)


def ensure(record: Record) -> None:
    """Put the path of the browser into the record.

    Raises:
        SetUpError: There is no browser, and this process cannot install one.
    """
    if record.chromium and Path(record.chromium).exists():
        return
    program = find()
    if program is None and is_root_on_debian():
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory, "apt.log")
            apt_install("chromium", log=log, on_failure=_INSTALL_IT)
            apt_install("fonts-dejavu-core", log=log, on_failure=_INSTALL_IT)  # a bare machine has no font
        program = find()
    if program is None:
        raise SetUpError(f"there is no Chromium on this machine. {_INSTALL_IT}")
    record.chromium = program
    say(f"Chromium of {program}")


def find() -> str | None:
    """Return the path of the first browser on the PATH, or None."""
    return next(filter(None, map(shutil.which, _NAMES)), None)
