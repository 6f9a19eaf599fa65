"""MODULE:NAME: the topology that it names, and the errors of one that cannot be loaded."""

import sys
from pathlib import Path

import pytest

from anchorbolt.cli.run.job_loading import load_topology
from anchorbolt.errors import JobError, TopologyError
from tests.cli.conftest import BUILD, WriteFiles

CONF = {"lines": 3}


def topology_name(reference: str) -> str:
    return load_topology(reference, CONF).name


def refusal(reference: str) -> str:
    with pytest.raises(JobError) as caught:
        load_topology(reference, CONF)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("topology = build()", "topology"),
        ("def topology(): return build()", "topology"),
        ("def topology(conf): return build(f'dropping-{conf[\"lines\"]}')", "topology"),
        ("def topology(*, conf): return build()", "topology"),
        ("def topology(conf=None, size=1): return build()", "topology"),
        ("class Jobs:\n    @staticmethod\n    def first(conf): return build()", "Jobs.first"),
    ],
    ids=["topology", "function", "of conf", "of keyword conf", "with defaults", "in a class"],
)
def test_a_topology_or_a_function_that_builds_one_is_loaded(write: WriteFiles, source: str, name: str) -> None:
    write({"drops.py": BUILD})
    write({"job.py": f"from drops import build\n{source}\n"})
    assert topology_name(f"job:{name}").startswith("dropping")


def test_a_function_gets_the_configuration_as_conf(write: WriteFiles) -> None:
    write({"drops.py": BUILD})
    write({"job.py": "from drops import build\ndef topology(conf): return build(f'dropping-{conf[\"lines\"]}')"})
    assert topology_name("job:topology") == "dropping-3"


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
    topology_name("job:topology")
    assert Path("notes").read_text() == "imported called "


def test_a_dotted_module_of_the_current_directory_comes_before_one_elsewhere_on_the_path(
    write: WriteFiles, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "ab_same_name.py").write_text("topology = None")
    monkeypatch.syspath_prepend(str(elsewhere))
    write({"ab_same_name.py": f"{BUILD}\n    topology = build('here')"})
    assert topology_name("ab_same_name:topology") == "here"


def test_a_module_of_a_package_may_import_relatively_by_either_name(write: WriteFiles) -> None:
    write({"ab_jobs/__init__.py": "", "ab_jobs/drops.py": BUILD})
    write({"ab_jobs/first.py": "from .drops import build\ntopology = build('first')"})
    assert topology_name("ab_jobs.first:topology") == "first"
    assert topology_name("ab_jobs/first.py:topology") == "first"
    assert sys.modules["ab_jobs.first"].__name__ == "ab_jobs.first"


def test_a_folder_without_init_is_a_package_too(write: WriteFiles) -> None:
    write({"ab_folder/drops.py": f"{BUILD}\n    topology = build('in a folder'.replace(' ', '-'))"})
    assert topology_name("ab_folder.drops:topology") == "in-a-folder"


def test_a_file_finds_its_siblings_and_is_importable_under_its_name(write: WriteFiles) -> None:
    write({"far/away/drops.py": BUILD})
    here = write({"far/away/ab_job.py": "from drops import build\ntopology = build('far')"})
    assert topology_name("far/away/ab_job.py:topology") == "far"
    assert topology_name(f"{here}/far/away/ab_job.py:topology") == "far"
    assert "ab_job" in sys.modules


@pytest.mark.parametrize("reference", ["job", "job:", ":topology", "", "job.topology"])
def test_a_reference_without_module_and_name_is_refused_with_the_form(reference: str) -> None:
    assert "Name a job as MODULE:NAME" in refusal(reference)


def test_a_missing_module_is_named_with_the_directory_that_was_searched(write: WriteFiles) -> None:
    here = write({"jobs/word_count.py": ""})
    message = refusal("jobs.word_cuont:topology")
    assert "no module 'jobs.word_cuont'" in message
    assert str(here) in message


def test_a_missing_file_is_named_with_the_nearest(write: WriteFiles) -> None:
    here = write({"jobs/word_count.py": ""})
    message = refusal("jobs/wordcount.py:topology")
    assert f"{here}/jobs/wordcount.py does not exist" in message
    assert "Did you mean 'word_count.py'?" in message


@pytest.mark.parametrize("name", ["word-count.py", "1st.py"])
def test_a_file_that_workers_could_not_import_is_refused(write: WriteFiles, name: str) -> None:
    write({name: BUILD})
    assert "Rename it" in refusal(f"{name}:build")


def test_a_file_with_the_name_of_a_loaded_module_is_refused(write: WriteFiles) -> None:
    write({"jobs/json.py": BUILD})
    message = refusal("jobs/json.py:build")
    assert "cannot be imported as 'json'" in message
    assert "Rename the file" in message


@pytest.mark.parametrize("way", ["ab_broken:topology", "ab_broken.py:topology"])
def test_a_failing_import_shows_the_users_own_traceback_first_and_nothing_of_ours(write: WriteFiles, way: str) -> None:
    write({"ab_broken.py": "import ab_deeper", "ab_deeper.py": "def f():\n    return 1 / 0\nf()"})
    message = refusal(way)
    assert message.startswith("Traceback")
    first_frame = message.splitlines()[1]
    assert "ab_broken.py" in first_frame
    assert "return 1 / 0" in message
    assert "importlib" not in message
    assert "jobs.py" not in message
    assert "module 'ab_broken' raised ZeroDivisionError" in message


def test_a_syntax_error_shows_its_place(write: WriteFiles) -> None:
    write({"ab_broken.py": "x = (\ny = 2\n"})
    message = refusal("ab_broken:topology")
    assert 'ab_broken.py", line 1' in message
    assert "SyntaxError" in message


def test_a_missing_import_of_the_job_is_not_taken_for_a_missing_job(write: WriteFiles) -> None:
    write({"ab_broken.py": "import ab_not_installed"})
    message = refusal("ab_broken:topology")
    assert message.startswith("Traceback")
    assert "'ab_not_installed'" in message


def test_a_script_without_guard_is_told_of_it(write: WriteFiles) -> None:
    write({"ab_script.py": "import sys\nsys.exit(0)"})
    assert 'if __name__ == "__main__":' in refusal("ab_script:topology")


def test_a_missing_name_is_answered_with_the_nearest(write: WriteFiles) -> None:
    write({"ab_job.py": "def topology(): pass\ndef helper(): pass\n"})
    message = refusal("ab_job:topologie")
    assert "module 'ab_job' has no 'topologie'" in message
    assert "Did you mean 'topology'?" in message


def test_a_missing_name_unlike_any_is_answered_with_what_there_is(write: WriteFiles) -> None:
    write({"ab_job.py": "from os.path import join\ndef first(): pass\ndef second(): pass\ndef _third(): pass\n"})
    assert refusal("ab_job:xyz").endswith("It has: first, second.")


@pytest.mark.parametrize(
    ("source", "complaint", "advice"),
    [
        ("topology = 3", "is of type int, not a topology", "Name a topology"),
        ("class topology: pass", "is the class topology", "Name a topology"),
        ("def topology(): pass", "returned is None", "Let the function return builder.create_topology(name)"),
        ("def topology(): return 3", "returned is of type int", "Name a topology"),
        (
            "from anchorbolt.topology import TopologyBuilder as B\ndef topology(): return B()",
            "returned is of type TopologyBuilder",
            "Call its create_topology(name)",
        ),
        (
            "from anchorbolt.topology import TopologyBuilder as B\ntopology = B()",
            "is of type TopologyBuilder",
            "Call its create_topology(name)",
        ),
        ("def topology(size): pass", "has the parameter 'size'", "one with the name conf"),
        ("def topology(conf, /): pass", "has the parameter 'conf'", "one with the name conf"),
    ],
)
def test_what_is_not_a_topology_is_refused_with_the_fix(
    write: WriteFiles, source: str, complaint: str, advice: str
) -> None:
    write({"ab_job.py": source})
    message = refusal("ab_job:topology")
    assert complaint in message
    assert advice in message


@pytest.mark.parametrize("raised", ["ValueError('no input')", "SystemExit('no input')"])
def test_a_function_that_raises_shows_its_own_traceback_first(write: WriteFiles, raised: str) -> None:
    write({"ab_job.py": f"def topology(conf):\n    raise {raised}\n"})
    message = refusal("ab_job:topology")
    assert message.startswith("Traceback")
    assert "ab_job.py" in message.splitlines()[1]
    assert "no input" in message
    assert "while it built the topology" in message


def test_a_wiring_error_stays_what_it_is(write: WriteFiles) -> None:
    write(
        {
            "ab_job.py": """
                from anchorbolt.topology import TopologyBuilder
                def topology():
                    return TopologyBuilder().create_topology("empty")
            """
        }
    )
    with pytest.raises(TopologyError):
        load_topology("ab_job:topology", CONF)
