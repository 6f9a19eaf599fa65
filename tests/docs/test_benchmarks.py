"""Of the benchmarks one is run, which replaces parts of the engine. Of the others, what they import is there."""

import pytest

from tests.support.programs import ROOT, printed


def test_each_benchmark_can_be_imported() -> None:
    peers = ROOT / "benchmarks" / "peers"  # what needs an environment of its own
    files = sorted(file for file in (ROOT / "benchmarks").rglob("*.py") if peers not in file.parents)
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert names
    code = f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)"
    printed("-c", code, PYTHONPATH=str(ROOT))


def test_the_word_count_has_a_topology_for_each_workload_and_each_point_of_a_sweep() -> None:
    code = (
        "from pathlib import Path\n"
        "from benchmarks.sweeps import SWEEPS\n"
        "from benchmarks.word_count_topology import word_count, word_count_of_files\n"
        "from benchmarks.workloads import WORKLOADS\n"
        "for workload in [*WORKLOADS, *(point.workload for sweep in SWEEPS for point in sweep.points)]:\n"
        "    for topology in word_count, word_count_of_files:\n"
        "        topology(workload, Path('text'), Path('out'))"
    )
    printed("-c", code, PYTHONPATH=str(ROOT))


@pytest.mark.thorough
def test_runs_are_measured_beside_runs_without_figures() -> None:
    assert "of processor time" in printed("-m", "benchmarks.measuring", "--case", "local-4", "--pairs", "1", cwd=ROOT)
