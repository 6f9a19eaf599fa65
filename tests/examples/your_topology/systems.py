"""Run the programs of `examples/your_topology`, each in its own system, and return what they counted.

Storm's program and streamparse's run on Storm's `LocalCluster`, as `storm local` starts it, and streamparse's bolts are
processes of Python there. `sparse run` itself cannot be used: it needs Leiningen and a Storm distribution.
"""

import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.command import ROOT, Command, run_arguments, wait_until
from tests.servers.redis_server import RedisServer

sys.path.append(str(ROOT / "tools"))

import other_systems  # (the tools are scripts, not a package)
from hbase_artefacts import find_java
from own_environment import FLINK, OTHER_SYSTEMS, OwnEnvironment

PROGRAMS = ROOT / "examples" / "your_topology"
MISSING = "{} is not here; `make set-up` installs it"
COUNT = re.compile(r"^\S+ \d+$", re.MULTILINE)
TOPOLOGY_TO_THRIFT = "import sys; sys.path[:0] = sys.argv[2:]; from word_count import *; WordCount.write(sys.argv[1])"


def python_of(environment: OwnEnvironment) -> Path:
    """Return the Python of an environment. Raises `LookupError` if it is not installed."""
    python = environment.python()
    if python is None:
        raise LookupError(MISSING.format(environment.purpose))
    return python


def first_on_path(directory: Path) -> dict[str, str]:
    """Return an environment in which the programs of this directory come before others, and without our modules."""
    return {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": ""}


def program_for_components(python: Path, directory: Path) -> Path:
    """Write the program that a topology of streamparse names for its components; return its directory.

    The environment has it too, but that one begins with a path that the environment no longer has.
    """
    program = directory / "bin" / "streamparse_run"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} -m streamparse.run "$@"\n')
    program.chmod(0o755)
    return program.parent


class Storm:
    """Storm's `LocalCluster` in a process."""

    def __init__(self, directory: Path) -> None:
        jars, compiler, java_home = other_systems.STORM.cached(), other_systems.java_compiler(), find_java()
        if jars is None or compiler is None or java_home is None:
            raise LookupError(MISSING.format("Storm with a JDK"))
        self._directory, self._compiler = directory, compiler
        self._java = Path(java_home, "bin", "java")
        self._class_path = f"{jars}/*"

    def jar(self, source: Path, resources: Iterable[Path] = ()) -> Path:
        """Compile a class and pack it into a jar, with scripts where Storm expects those of its shell components."""
        classes, jar = self._directory / "classes", self._directory / "topology.jar"
        subprocess.run([self._compiler, "-cp", self._class_path, "-d", classes, source], check=True)
        with zipfile.ZipFile(jar, "w") as archive:
            for path in classes.iterdir():
                archive.write(path, path.name)
            for path in resources:
                archive.write(path, f"resources/{path.name}")
        return jar

    def run(self, jar: Path, main: str, *arguments: str, env: dict[str, str] | None = None) -> Command:
        """Start `storm local`: its script would start this class in the same way."""
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={self._directory}"]
        local = [f"-Dstorm.jar={jar}", "-Dstorm.local.sleeptime=600", "-cp", f"{jar}:{self._class_path}"]
        command = [str(self._java), *options, *local, "org.apache.storm.LocalCluster", main, *arguments]
        return Command(command, directory=self._directory, env=env)


def wait_for_lines(command: Command, text: Callable[[], str], lines: int) -> None:
    wait_until(lambda: len(COUNT.findall(text())) >= lines or command.has_ended, f"{lines} lines")
    assert not command.has_ended, repr(command)


def run_storm(text: Path, lines: int, directory: Path, redis: RedisServer, committed: Callable[[], bool]) -> list[str]:
    storm = Storm(directory)
    jar = storm.jar(PROGRAMS / "storm" / "WordCount.java")
    with closing(storm.run(jar, "WordCount", str(text), str(redis.port))) as command:
        wait_for_lines(command, lambda: command.out, lines)
        wait_until(committed, "the commit of Storm's checkpoint")
        return COUNT.findall(command.out)


def run_streamparse(text: Path, lines: int, directory: Path, redis: RedisServer) -> list[str]:
    storm, python, source = Storm(directory), python_of(OTHER_SYSTEMS), PROGRAMS / "streamparse" / "src"
    thrift, output = directory / "topology.thrift", directory / "counts"
    script = ["-c", TOPOLOGY_TO_THRIFT, thrift, source, PROGRAMS / "streamparse" / "topologies"]
    subprocess.run([python, "-W", "ignore", *script], check=True)
    jar = storm.jar(Path(__file__).with_name("SubmitThrift.java"), [source / "words.py"])
    conf = {"word_count.input": text, "word_count.output": output, "word_count.redis.port": redis.port}
    output.touch()
    arguments = [str(thrift), *(f"{key}={value}" for key, value in conf.items())]
    env = first_on_path(program_for_components(python, directory))
    with closing(storm.run(jar, "SubmitThrift", *arguments, env=env)) as command:
        wait_for_lines(command, output.read_text, lines)
    return COUNT.findall(output.read_text())


def run_bytewax(text: Path, directory: Path) -> list[str]:
    python, recovery, output = python_of(OTHER_SYSTEMS), directory / "recovery", directory / "counts"
    if not recovery.exists():
        recovery.mkdir()
        subprocess.run([python, "-m", "bytewax.recovery", recovery, "1"], check=True)
    dataflow = f"word_count:dataflow('{text}', '{output}')"
    options = ["-r", recovery, "-s", "1", "-b", "0"]
    subprocess.run([python, "-m", "bytewax.run", dataflow, *options], check=True, cwd=PROGRAMS / "bytewax")
    return COUNT.findall(output.read_text())


def run_flink(text: Path, directory: Path) -> list[str]:
    python, output = python_of(FLINK), directory / "counts"
    locations = [path.as_uri() for path in (text.parent, output, directory / "checkpoints")]
    command = [str(python), str(PROGRAMS / "flink" / "word_count.py"), *locations]
    with closing(Command(command, directory=directory, env=first_on_path(python.parent))) as job:
        assert job.end() == 0, repr(job)
    return [line for path in sorted(output.rglob("part-*")) for line in COUNT.findall(path.read_text())]


def run_anchorbolt(text: Path, directory: Path) -> list[str]:
    job = f"{PROGRAMS / 'anchorbolt' / 'word_count.py'}:topology"
    conf = {"word_count.input": text.parent, "word_count.output": directory / "counts"}
    options = [part for key, value in conf.items() for part in ("--set", f"{key}={value}")]
    with closing(Command(run_arguments(job, "--until-empty", *options), directory=directory)) as command:
        assert command.end() == 0, repr(command)
    return [f"{row['word']} {row['count']}" for row in pq.read_table(directory / "counts").to_pylist()]
