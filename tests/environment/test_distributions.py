"""What is published: what is in it, and whether it works where it is installed, without this checkout."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from anchorbolt import __version__
from tests.architecture.test_public_names import PUBLIC

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tools"))

import distributions  # noqa: E402 (the tools are scripts, not a package)
from virtual_environment import VirtualEnvironment  # noqa: E402

# Public modules that ask for more: the extra `hbase`, and pytest.
NEED_MORE = {"anchorbolt.state_backends.hbase", "anchorbolt.testing.conformance"}
OF_THE_PAGE = {".css", ".html", ".js", ".svg"}
PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]

JOB = """
from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.spouts import StreamSpout
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder


class Count(BaseStatefulBolt):
    def prepare(self, conf, context, collector):
        self.collector = collector

    def init_state(self, state):
        self.state = state

    def execute(self, tup):
        self.state[tup["line"]] = self.state.get(tup["line"], 0) + 1
        self.collector.ack(tup)


def topology(spout=None):
    builder = TopologyBuilder()
    lines = spout or StreamSpout(lambda spark: spark.readStream.text("in/"), fields=["line"])
    builder.set_spout("lines", lines)
    builder.set_bolt("count", Count(), parallelism=2).fields_grouping("lines", "line")
    return builder.create_topology("lines")


def on_spark():
    return topology()
"""
ON_LOCAL_CLUSTER = """
from anchorbolt.testing import FeederSpout, LocalCluster
from job import topology

handle = LocalCluster().submit(topology(FeederSpout(["line"], [[("a",), ("b",), ("a",)]])))
handle.await_termination()
assert handle.state("count") == {"a": 2, "b": 1}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution of this checkout."""
    return distributions.build(CHECKOUT, tmp_path_factory.mktemp("dist"))


@pytest.mark.parametrize("lock", ["runtime.txt", "extras.txt"])
def test_a_lock_names_every_package_that_a_user_needs(lock: str) -> None:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # what pytest needs on 3.10
    project = toml.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"]
    if lock == "extras.txt":
        needed += [
            each for extra, names in project["optional-dependencies"].items() if extra != "dev" for each in names
        ]
    locked = set(re.findall(r"^([a-z0-9-]+)==", (CHECKOUT / "requirements" / lock).read_text(), re.M))
    assert {re.split(r"[^\w-]", each)[0].lower() for each in needed} <= locked, "run make lock"


def unpacked(sdist: Path, to: Path) -> Path:
    with tarfile.open(sdist) as archive:
        assert {member.uid for member in archive} == {0}, "nothing tells who built it"
        if hasattr(tarfile, "data_filter"):  # a later 3.10 or 3.11 has it as well
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(to)
    [folder] = to.iterdir()
    return folder


def test_a_version_that_the_changelog_does_not_date_is_not_built(tmp_path: Path) -> None:
    (tmp_path / "anchorbolt").mkdir()
    (tmp_path / "anchorbolt" / "__init__.py").write_text(
        '"""It."""\n\n__all__ = ["__version__"]\n__version__ = "9.1"\n'
    )
    (tmp_path / "CHANGELOG.md").write_text("## [9.1]\n\n## [9.0] - 2020-01-01\n")
    assert distributions.version(tmp_path) == "9.1"
    with pytest.raises(distributions.SetUpError, match=r"9\.1"):
        distributions.build(tmp_path, tmp_path / "dist")


def test_the_wheel_holds_the_library_and_its_licence_and_nothing_else(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    assert wheel.name == f"anchorbolt-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    information = f"anchorbolt-{__version__}.dist-info"
    assert {"anchorbolt/py.typed", f"{information}/licenses/LICENSE", f"{information}/entry_points.txt"} <= names
    assert {name.partition("/")[0] for name in names} == {"anchorbolt", information}
    assert {Path(name).suffix for name in names if name.startswith("anchorbolt/")} == {
        ".py",
        ".typed",
        ".xml",
        *OF_THE_PAGE,
    }
    assert [name for name in names if "__pycache__" in name or "test_" in name] == []
    there = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "anchorbolt").rglob("*.py")}
    assert there <= names


def test_the_source_distribution_gives_the_same_wheel_and_each_build_the_same_bytes(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, sdist = built
    source = unpacked(sdist, tmp_path / "source")
    others = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert {name for name in others if not name.startswith("anchorbolt/")} == {
        *("CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml")
    }
    from_source, sdist_of_source = distributions.build(source, tmp_path / "again")
    assert from_source.read_bytes() == wheel.read_bytes()
    assert sdist_of_source.read_bytes() == sdist.read_bytes()


def installed_pythons() -> Iterator[Path]:
    """Yield the Pythons of this machine: those that a variable lists, on the PATH, of pyenv."""
    yield from map(Path, filter(None, os.environ.get("ANCHORBOLT_PYTHONS", "").split(os.pathsep)))
    yield Path(sys.executable)
    yield from (Path(found) for version in PYTHONS if (found := shutil.which(f"python{version}")))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from pyenv.glob("versions/*/bin/python")


def python_of(version: str) -> Path | None:
    """Return a Python of this version that can make virtual environments: outside of one."""
    asked = "import ensurepip, sys, venv; print(*sys.version_info[:2], sep='.'); print(sys._base_executable)"
    for python in installed_pythons():
        shown = subprocess.run([python, "-c", asked], capture_output=True, text=True).stdout.split()
        if len(shown) == 2 and shown[0] == version:
            return Path(shown[1])
    return None


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that is removed at once: an environment with Spark has 600 MB, and pytest keeps its own for long."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.optional_in_ci
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_installed_wheel_runs_a_job_without_the_checkout(
    built: tuple[Path, Path], place: Path, version: str
) -> None:
    python = python_of(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    subprocess.run([python, "-m", "venv", place / "venv"], check=True)
    environment = VirtualEnvironment(CHECKOUT, place / "venv")
    for lock in ("build.txt", "runtime.txt"):
        environment.install(lock)
    pip = [environment.python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", built[0]], check=True)
    work = place / "work"
    (work / "in").mkdir(parents=True)
    (work / "in" / "a.txt").write_text("a\nb\na\n")
    (work / "job.py").write_text(JOB)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    env |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}

    def shown_by(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    shown_by(*pip, "check")
    own, anchorbolt = environment.python, environment.python.parent / "anchorbolt"
    origin = shown_by(own, "-c", "import anchorbolt; print(anchorbolt.__file__)")
    assert Path(origin.strip()).is_relative_to(place / "venv")
    shown_by(own, "-c", "; ".join(f"import {module}" for module in PUBLIC if module not in NEED_MORE))
    assert shown_by(anchorbolt, "--version") == f"anchorbolt {__version__}\n"
    shown_by(own, "-c", ON_LOCAL_CLUSTER)
    environment.install("extras.txt")
    shown_by(own, "-c", "import anchorbolt.state_backends.hbase, anchorbolt.ui.app")
    shown_by(*pip, "check")
    if shutil.which("java") is None:
        pytest.skip("there is no Java here: the job ran on LocalCluster only")
    printed = shown_by(anchorbolt, "run", "job.py:on_spark", "--until-empty").splitlines()
    assert printed[0].startswith(f"anchorbolt {__version__}: lines on Spark ")
    assert printed[-1].startswith("finished: 1 wave, 3 tuples in ")
    assert shown_by(anchorbolt, "state", "get", "lines", "count", "a").split()[-1] == "2"
