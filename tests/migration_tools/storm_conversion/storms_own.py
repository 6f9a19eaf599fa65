"""Storm's own jars, one release of each generation, which read a state in Redis or HBase as a topology does."""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from anchorbolt.storm.wrapper import Generation
from tests.cli.command import ROOT
from tests.servers.hbase_server import HBaseServer
from tests.servers.redis_server import RedisServer
from tests.support.storm_fixtures import HERE as FORMS
from tests.support.storm_hbase import FAMILY, StormTable

sys.path.append(str(ROOT / "tools"))

import hbase_artefacts
import other_systems  # (the tools are scripts, not a package)

_JAVA = Path(__file__).parent / "java"
_PATCH = "jdk.unsupported"
# Kryo reaches into these packages for Optional, UUID and the like.
_OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.util.concurrent")


@cache
def jars_of(generation: Generation) -> Path:
    """Return the directory of the jars. Raises `LookupError` if they are not installed."""
    jars = other_systems.STORMS[generation.value].cached()
    if jars is None:
        raise LookupError(f"the jars of {generation.label} are not here; `make set-up` installs them")
    return jars


class StormReader:
    """A program on the jars of one release of Storm."""

    def __init__(self, generation: Generation, directory: Path) -> None:
        """Compile the program into a directory. Raises `LookupError` if the jars or a JDK are missing."""
        compiler, java_home = _jdk()
        self._generation = generation
        self._java = Path(java_home, "bin", "java")
        self._class_path = f"{directory / 'classes'}:{jars_of(generation)}/*"
        self._patch = directory / "patch"
        programs = [_JAVA / "ReadState.java", _JAVA / "anchorfix" / "Colour.java", FORMS / "KryoForms.java"]
        _compile(compiler, directory / "classes", "-cp", self._class_path, *programs)
        stand_ins = sorted((_JAVA / "sun" / "misc").glob("*.java"))
        _compile(compiler, self._patch, f"--patch-module={_PATCH}={_JAVA}", *stand_ins)

    def read(self, redis: RedisServer, namespaces: Mapping[str, Mapping[str, str]]) -> dict[str, list[Any]]:
        """Return the entries of each namespace, as typed forms; the values are its `keyClass` and `valueClass`."""
        asked = "".join(
            f"{name}\t{config.get('keyClass', '')}\t{config.get('valueClass', '')}\n"
            for name, config in namespaces.items()
        )
        options = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
        options += [f"--patch-module={_PATCH}={self._patch}", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        text = ["text"] if self._generation.writes_base64 else []
        done = subprocess.run(
            [str(self._java), *options, "-cp", self._class_path, "ReadState", str(redis.port), *text],
            input=asked,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
        rows = map(json.loads, done.stdout.splitlines())
        return {row["namespace"]: row["entries"] for row in rows}


class StormOnHBase:
    """A program on Storm 2.5's own jars, with its own provider of states in HBase."""

    def __init__(self, directory: Path) -> None:
        """Compile the program into a directory. Raises `LookupError` if the jars or a JDK are missing."""
        compiler, java_home = _jdk()
        places = other_systems.STORM_HBASE.cached(), hbase_artefacts.JARS.cached()
        if None in places:
            raise LookupError("the jars of Storm and HBase are not here; `make set-up` installs them")
        class_path = ":".join(f"{jars}/*" for jars in (jars_of(Generation.STORM_2_0), *places))
        _compile(compiler, directory, "-cp", class_path, _JAVA / "HBaseState.java", FORMS / "KryoForms.java")
        options = [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED]
        self._command = [str(Path(java_home, "bin", "java")), *options, "-Xmx256m", "-cp", f"{directory}:{class_path}"]

    def run(self, server: HBaseServer, table: StormTable, *arguments: str) -> dict[str, dict[str, str]]:
        """Run the program (its comment says how), and return the values by key by namespace."""
        command = [*self._command, "HBaseState", str(server.zookeeper_port), table.name, FAMILY, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
        found: dict[str, dict[str, str]] = {}
        for row in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")):
            found.setdefault(row[0], {})[row[1]] = row[2]
        return found


def _jdk() -> tuple[str, str]:
    compiler, java_home = other_systems.java_compiler(), hbase_artefacts.find_java()
    if compiler is None or java_home is None:
        raise LookupError("there is no JDK here; `make set-up` says how to install one")
    return compiler, java_home


def _compile(compiler: str, target: Path, *arguments: object) -> None:
    command = [compiler, "-nowarn", "-d", str(target), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
