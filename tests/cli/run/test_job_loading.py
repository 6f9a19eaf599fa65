"""MODULE:NAME: the topology that it names, and the errors of one that cannot be loaded."""

import sys
from pathlib import Path

import pytest

from anchorbolt.cli.run.job_loading import load_topology
from anchorbolt.errors import JobError, TopologyError
from tests.cli.conftest import BUILD, WriteFiles

CONF = {"lines": 3}
IMPORT = "from drops import build\n"
BUILDER = "from anchorbolt.topology import TopologyBuilder as B\n"


@pytest.mark.parametrize(
    ("source", "name", "topology"),
    [
        ("topology = build()", "topology", "dropping"),
        ("def topology(): return build()", "topology", "dropping"),
        ("def topology(conf): return build(f'dropping-{conf[\"lines\"]}')", "topology", "dropping-3"),
        ("def topology(*, conf): return build()", "topology", "dropping"),
        ("def topology(conf=None, size=1): return build()", "topology", "dropping"),
        ("class Jobs:\n    @staticmethod\n    def first(conf): return build()", "Jobs.first", "dropping"),
    ],
    ids=["topology", "function", "of conf", "of keyword conf", "with defaults", "in a class"],
)
def test_a_topology_or_a_function_that_builds_one_is_loaded(
    write: WriteFiles, source: str, name: str, topology: str
) -> None:
    write({"drops.py": BUILD, "job.py": IMPORT + source})
    assert load_topology(f"job:{name}", CONF).name == topology


def test_a_module_is_imported_once_and_its_function_called_once(write: WriteFiles) -> None:
    write(
        {
            "drops.py": BUILD,
            "job.py": """
                from pathlib import Path
                from drops import build
                def note(what):
                    with Path("notes").open("a") as notes: notes.write(what)
                note("imported ")
                def topology():
                    note("called ")
                    return build()
            """,
        }
    )
    load_topology("job:topology", CONF)
    assert Path("notes").read_text() == "imported called "


def test_a_dotted_module_of_the_current_directory_comes_before_one_elsewhere_on_the_path(
    write: WriteFiles, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "ab_same_name.py").write_text("topology = None")
    monkeypatch.syspath_prepend(str(elsewhere))
    write({"ab_same_name.py": f"{BUILD}\n    topology = build('here')"})
    assert load_topology("ab_same_name:topology", CONF).name == "here"


@pytest.mark.parametrize(
    ("files", "references", "module"),
    [
        (  # a module of a package imports relatively by either name
            {"ab_jobs/__init__.py": "", "ab_jobs/drops.py": BUILD, "ab_jobs/first.py": f"from .{IMPORT[5:]}"},
            ["ab_jobs.first:build", "ab_jobs/first.py:build"],
            "ab_jobs.first",
        ),
        ({"ab_folder/drops.py": BUILD}, ["ab_folder.drops:build"], "ab_folder.drops"),  # without __init__.py
        (  # a file finds its siblings
            {"far/away/drops.py": BUILD, "far/away/ab_job.py": IMPORT},
            ["far/away/ab_job.py:build", "{here}/far/away/ab_job.py:build"],
            "ab_job",
        ),
    ],
)
def test_a_module_is_imported_under_its_name_however_it_is_given(
    write: WriteFiles, files: dict[str, str], references: list[str], module: str
) -> None:
    here = write(files)
    for reference in references:
        assert load_topology(reference.format(here=here), CONF).name == "dropping"
    assert sys.modules[module].__name__ == module


FAILING = {"ab_broken.py": "import ab_deeper", "ab_deeper.py": "def f():\n    return 1 / 0\nf()"}
FAILED = ["Traceback", "return 1 / 0", "module 'ab_broken' raised ZeroDivisionError"]
FUNCTIONS = {"ab_job.py": "from os.path import join\ndef topology(): pass\ndef helper(): pass\ndef _third(): pass\n"}
USE_RESULT = "Call its create_topology(name)"
NAME_ONE = "Name a topology"


def job(source: str) -> dict[str, str]:
    return {"ab_job.py": source}


@pytest.mark.parametrize(
    ("files", "reference", "parts"),
    [
        *(({}, each, ["Name a job as MODULE:NAME"]) for each in ("job", "job:", ":topology", "", "job.topology")),
        ({"jobs/word_count.py": ""}, "jobs.word_cuont:topology", ["no module 'jobs.word_cuont'", "{here}"]),
        (
            {"jobs/word_count.py": ""},
            "jobs/wordcount.py:topology",
            ["{here}/jobs/wordcount.py does not exist", "Did you mean 'word_count.py'?"],
        ),
        # Names that Spark's workers could not import.
        ({"word-count.py": BUILD}, "word-count.py:build", ["Rename it"]),
        ({"1st.py": BUILD}, "1st.py:build", ["Rename it"]),
        ({"jobs/json.py": BUILD}, "jobs/json.py:build", ["cannot be imported", "Rename it"]),
        # A module that fails.
        (FAILING, "ab_broken:topology", FAILED),
        (FAILING, "ab_broken.py:topology", FAILED),
        ({"ab_broken.py": "x = (\ny = 2\n"}, "ab_broken:topology", ['ab_broken.py", line 1', "SyntaxError"]),
        ({"ab_broken.py": "import ab_not_installed"}, "ab_broken:topology", ["Traceback", "'ab_not_installed'"]),
        (job("import sys\nsys.exit(0)"), "ab_job:topology", ['if __name__ == "__main__":']),
        # A name that is not there.
        (FUNCTIONS, "ab_job:topologie", ["module 'ab_job' has no 'topologie'", "Did you mean 'topology'?"]),
        (FUNCTIONS, "ab_job:xyz", ["It has: topology, helper."]),
        # What is not a topology.
        (job("topology = 3"), "ab_job:topology", ["is of type int, not a topology", NAME_ONE]),
        (job("class topology: pass"), "ab_job:topology", ["is the class topology, not a topology", NAME_ONE]),
        (job("def topology(): pass"), "ab_job:topology", ["returned is None", "Let the function return builder."]),
        (job("def topology(): return 3"), "ab_job:topology", ["returned is of type int", NAME_ONE]),
        (job(f"{BUILDER}def topology(): return B()"), "ab_job:topology", ["returned is of type", USE_RESULT]),
        (job(f"{BUILDER}topology = B()"), "ab_job:topology", ["is of type TopologyBuilder", USE_RESULT]),
        (job("def topology(size): pass"), "ab_job:topology", ["has the parameter 'size'", "one with the name conf"]),
        (job("def topology(conf, /): pass"), "ab_job:topology", ["parameter 'conf'", "one with the name conf"]),
        # A function that fails.
        *(
            (
                job(f"def topology(conf):\n    raise {raised}('no input')\n"),
                "ab_job:topology",
                ["Traceback", "no input", f"ab_job:topology raised {raised} while it built the topology"],
            )
            for raised in ("ValueError", "SystemExit")
        ),
    ],
)
def test_what_cannot_be_loaded_is_refused_with_the_users_own_traceback_and_advice(
    write: WriteFiles, files: dict[str, str], reference: str, parts: list[str]
) -> None:
    here = write(files)
    with pytest.raises(JobError) as caught:
        load_topology(reference, CONF)
    message = str(caught.value)
    for part in parts:
        assert part.format(here=here) in message
    if "Traceback" in message:
        first, frame, *_ = message.splitlines()
        assert first.startswith("Traceback")
        assert reference.partition(":")[0].removesuffix(".py") in frame
        assert "importlib" not in message
        assert "job_loading.py" not in message


def test_a_wiring_error_stays_what_it_is(write: WriteFiles) -> None:
    write({"ab_job.py": f"{BUILDER}def topology(): return B().create_topology('empty')\n"})
    with pytest.raises(TopologyError):
        load_topology("ab_job:topology", CONF)


@pytest.mark.parametrize("name", ["redis", "pandas", "pyspark", "queue", "typer"])
@pytest.mark.parametrize("form", ["{}:topology", "{}.py:topology", "{}.jobs:topology"])
def test_a_job_with_the_name_of_a_module_that_others_import_is_refused_before_it_is_imported(
    write: WriteFiles, name: str, form: str
) -> None:
    file = f"{name}/jobs.py" if "jobs" in form else f"{name}.py"
    write({file: "raise AssertionError('imported')", f"{name}/__init__.py" if "jobs" in form else "other.py": ""})
    before = sys.modules.get(name)
    with pytest.raises(JobError, match="Rename it"):
        load_topology(form.format(name), CONF)
    assert sys.modules.get(name) is before


def test_a_job_may_have_the_name_of_an_installed_module_that_only_jobs_import(
    write: WriteFiles, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "ab_installed_jobs.py").write_text("topology = None")
    monkeypatch.syspath_prepend(str(elsewhere))
    write({"drops.py": BUILD, "ab_installed_jobs.py": IMPORT + "topology = build()"})
    assert load_topology("ab_installed_jobs:topology", CONF).name == "dropping"
