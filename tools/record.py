"""The programs that set-up found, saved in the virtual environment: as JSON for Python, as shell lines for make.

This module imports nothing that set-up installs.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

RECORD_NAME = "anchorbolt-setup.json"
ENVIRONMENT_NAME = "anchorbolt.env"


@dataclass
class Record:
    """The programs that the commands of the Makefile use.

    Attributes:
        java_home: directory with a `bin/java` that can run Spark, or None before set-up searched for one.
        java_asked: JAVA_HOME and the `java` on the PATH at the time of the search.
        redis_server: path of the `redis-server` program, or None before the search.
        postgres: path of the `postgres` program, or None before the search.
        prometheus: path of the `prometheus` program, or None before the search.
        chromium: path of a Chromium or Chrome, or None before the search.
    """

    java_home: str | None = None
    java_asked: list[str | None] = field(default_factory=list)
    redis_server: str | None = None
    postgres: str | None = None
    prometheus: str | None = None
    chromium: str | None = None

    @classmethod
    def load(cls, venv: Path) -> Record:
        """Read the record of an environment; return an empty record if it has none."""
        try:
            return cls(**json.loads((venv / RECORD_NAME).read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return cls()

    def save(self, venv: Path) -> None:
        """Write the record, and the shell lines that make reads before each command."""
        _write_if_changed(venv / RECORD_NAME, json.dumps(asdict(self), indent=2) + "\n")
        _write_if_changed(venv / ENVIRONMENT_NAME, self.shell_lines(venv))

    def shell_lines(self, venv: Path) -> str:
        """Return the environment as lines for a POSIX shell."""
        path = [str(venv / "bin")]
        if self.java_home:
            path.append(str(Path(self.java_home, "bin")))
        lines = [
            "# Written by tools/set_up.py; `. .venv/anchorbolt.env` in a shell gives it what make gives its commands.",
            f"export VIRTUAL_ENV={shlex.quote(str(venv))}",
            # With these set, another Spark or other packages would be used instead of the locked ones.
            "unset SPARK_HOME SPARK_CONF_DIR PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH PYTHONHOME",
            # A host name that does not resolve stops Spark from starting.
            "export SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost",
        ]
        if self.java_home:
            lines.append(f"export JAVA_HOME={shlex.quote(self.java_home)}")
        programs = filter(None, (self.redis_server, self.postgres, self.prometheus, self.chromium))
        tail = "".join(f":{shlex.quote(str(Path(program).parent))}" for program in programs)
        lines.append(f'export PATH={":".join(map(shlex.quote, path))}:"$PATH"{tail}')
        return "\n".join(lines) + "\n"


def _write_if_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
