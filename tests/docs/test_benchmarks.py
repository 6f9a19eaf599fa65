"""Of the benchmarks one is run, which replaces parts of the engine. Of the others, what they import is there."""

import os

import pytest

from tests.support.programs import ROOT, printed


def test_each_benchmark_can_be_imported() -> None:
    files = sorted((ROOT / "benchmarks").rglob("*.py"))
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    assert names
    paths = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])  # as a script, a benchmark finds those beside it
    code = f"import importlib\nfor name in {names!r}:\n    importlib.import_module(name)"
    printed("-c", code, PYTHONPATH=paths)


@pytest.mark.thorough
def test_runs_are_measured_beside_runs_without_figures() -> None:
    assert "of processor time" in printed("-m", "benchmarks.measuring", "--case", "local-4", "--pairs", "1", cwd=ROOT)
