"""The parts of set-up (tools/) that decide something; the rest is seen whenever make runs."""

import hashlib
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "tools"))

import hbase_artefacts  # noqa: E402 (the tools are scripts, not a package)
import java_runtime  # noqa: E402
import maven_jars  # noqa: E402
from progress import SetUpError  # noqa: E402
from record import Record  # noqa: E402

JAVA = """\
#!/bin/sh
case "$1" in
  --list-modules) printf '%s\\n' {modules} ;;
  -XshowSettings:properties) printf '  java.home = %s\\n  java.specification.version = %s\\n' {home} {version} >&2 ;;
  *) for argument do echo "$argument"; done ;;
esac
"""


def make_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(script)
    path.chmod(0o755)
    return path


def make_java(home: Path, version: str, modules: str = "java.base@1 jdk.incubator.vector@1") -> Path:
    script = JAVA.format(home=shlex.quote(str(home)), version=version, modules=modules)
    return make_program(home / "bin" / "java", script)


def test_an_installed_java_that_is_unsuitable_gives_way_to_the_next(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "11"), make_java(tmp_path / "new", "21")
    found = java_runtime.installed_java([str(old.parent.parent), str(new)])
    assert found is not None
    assert found.home == tmp_path / "new"
    assert java_runtime.installed_java([str(old.parent.parent), str(old)]) is None
    assert java_runtime.installed_java([None, None]) is None


def test_a_java_without_the_optional_module_is_started_without_asking_for_it(tmp_path: Path) -> None:
    program = make_java(tmp_path / "it's java", "21", modules="java.base@21")
    java = java_runtime.inspect(program)
    assert java is not None
    assert not java.has_optional_module
    home = java_runtime.make_launcher(java, tmp_path / "launcher")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "Main", "$HOME", ""]
    said = subprocess.run([str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["-Xmx1g", "-cp", "a b:*", "Main", "$HOME", ""]


def test_the_locks_name_no_registry_and_hold_every_direct_dependency() -> None:
    locks = {path.name: path.read_text() for path in (CHECKOUT / "requirements").glob("*.txt")}
    assert set(locks) == {
        *("build.txt", "dev.txt", "runtime.txt", "extras.txt", "dist.txt", "debian_python.txt", "docs.txt"),
        *("java.txt", "moto.txt", "other_systems.txt", "bytewax.txt", "flink.txt"),
    }
    assert [name for name, lock in locks.items() if "://" in lock] == []
    assert all(f"\n{name}==" in locks["dev.txt"] for name in ("pyspark", "pyarrow", "redis", "pytest", "mypy"))


def test_the_environment_survives_a_shell_whatever_the_names_are(tmp_path: Path) -> None:
    venv = tmp_path / "it's $HOME"
    venv.mkdir()
    record = Record("/opt/a java", [None, None], redis_server="/opt/re dis/redis-server", postgres="/opt/p g/postgres")
    record.save(venv)
    shown = subprocess.run(
        ["/bin/sh", "-c", '. "$1/anchorbolt.env" && printf "%s\\n" "$VIRTUAL_ENV" "$JAVA_HOME" "$PATH"', "-", venv],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "SPARK_HOME": "/opt/spark"},
    ).stdout.splitlines()
    assert shown == [str(venv), "/opt/a java", f"{venv}/bin:/opt/a java/bin:/usr/bin:/bin:/opt/re dis:/opt/p g"]
    assert Record.load(venv).redis_server == "/opt/re dis/redis-server"


# Stands in for Maven: writes what JARS says, "name=content" each, to the directory that it is asked for.
MAVEN = """\
#!/bin/sh
for argument do case "$argument" in -DoutputDirectory=*) to=${argument#*=} ;; esac; done
mkdir "$to"
for jar in $JARS; do printf %s "${jar#*=}" > "$to/${jar%%=*}"; done
"""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    program = make_program(tmp_path / "bin" / "mvn", MAVEN)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return monkeypatch


def fetch_two_jars(tmp_path: Path) -> None:
    jars = [
        maven_jars.Jar(hashlib.sha256(content).hexdigest(), "a.group", name, "1")
        for name, content in (("one", b"first"), ("two", b"second"))
    ]
    maven_jars.fetch(jars, tmp_path / "cache" / "hbase", log=tmp_path / "log")


def test_jars_appear_at_once_and_another_set_up_that_was_faster_is_left_alone(
    tmp_path: Path, maven: pytest.MonkeyPatch
) -> None:
    maven.setenv("JARS", "one-1.jar=first two-1.jar=second")
    for _ in range(2):
        fetch_two_jars(tmp_path)
    [directory] = (tmp_path / "cache").iterdir()
    assert directory.name == "hbase"
    fetched = {path.name: path.read_text() for path in directory.iterdir()}
    assert fetched == {"one-1.jar": "first", "two-1.jar": "second"}


@pytest.mark.parametrize(
    ("came", "named"),
    [
        ("one-1.jar=other two-1.jar=second", "one-1.jar"),
        ("one-1.jar=first", "two-1.jar"),
        ("one-1.jar=first two-1.jar=second three-1.jar=third", "three-1.jar"),
    ],
)
def test_jars_that_are_not_the_pinned_ones_are_named_and_not_kept(
    tmp_path: Path, maven: pytest.MonkeyPatch, came: str, named: str
) -> None:
    maven.setenv("JARS", came)
    with pytest.raises(SetUpError, match=named):
        fetch_two_jars(tmp_path)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_machine_that_cannot_have_hbase_is_set_up_without_it_and_in_ci_that_fails(
    tmp_path: Path, maven: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    maven.setenv("JARS", "")
    maven.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    maven.delenv("CI", raising=False)
    hbase_artefacts.ensure(None, log=tmp_path / "log")
    assert "going on without HBase" in capsys.readouterr().out
    maven.setenv("CI", "true")
    with pytest.raises(SetUpError, match="hbase-server"):
        hbase_artefacts.ensure(None, log=tmp_path / "log")
