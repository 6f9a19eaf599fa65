"""Find the `prometheus` and `promtool` programs, or install them as root on Debian; never starts a server."""

import shutil
import tempfile
from pathlib import Path

from progress import SetUpError, apt_install, is_root_on_debian, say
from record import Record

_INSTALL_IT = (
    "Install Prometheus so that `prometheus` and `promtool` are on the PATH (Debian and Ubuntu: apt-get install "
    "prometheus; macOS: brew install prometheus) and run the command again."
)


def ensure(record: Record) -> None:
    """Put the path of `prometheus` into the record.

    Raises:
        SetUpError: Prometheus is missing, and this process cannot install it.
    """
    if record.prometheus and Path(record.prometheus).exists():
        return
    if not _is_there() and is_root_on_debian():
        with tempfile.TemporaryDirectory() as directory:
            apt_install("prometheus", log=Path(directory, "apt.log"), on_failure=_INSTALL_IT)
    if not _is_there():
        raise SetUpError(f"there is no Prometheus on this machine. {_INSTALL_IT}")
    record.prometheus = shutil.which("prometheus")
    say(f"Prometheus of {record.prometheus}")


def _is_there() -> bool:
    return shutil.which("prometheus") is not None and shutil.which("promtool") is not None
