"""Runs a mutant in a process of its own, by seeds and then by the model's tests, and says what catches it.

    python -m tests.simulation.judging "no fence is ever refused"

The process imports the changed module from its syntax tree; no file is written.
"""

import importlib.abc
import importlib.machinery
import json
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.simulation.guards import ROOT, source_path
from tests.simulation.mutants import MUTANTS, Mutant

SEEDS = 150  # before the model's tests, which take as long and catch what shows in few schedules
_MARK = "verdict: "
_MODEL_TESTS = (
    "tests/state_backends/test_rules.py",
    "tests/state_backends/test_memory.py",
    "tests/state_backends/test_conformance.py::TestMemory",
    "tests/state_backends/test_key_value.py",
    "tests/state_backends/test_read_positions.py",
    "tests/checkpoint",
    "tests/engine/task/test_bolt_task.py",
    "tests/engine/driver/test_waves.py",
    "tests/engine/driver/test_sinks.py",
    "tests/engine/driver/test_older_driver.py",
    "tests/engine/driver/test_failed_rounds.py",
)


@dataclass(frozen=True)
class Verdict:
    """The seed or the test that caught a mutant, empty if none did, and what it saw."""

    caught_by: str = ""
    reason: str = ""


def judge(mutant: Mutant) -> Verdict:
    """Judge a mutant in a process of its own. Raises `RuntimeError` where that process fails."""
    judged = subprocess.run(
        [sys.executable, "-m", "tests.simulation.judging", mutant.name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ANCHORBOLT_HYPOTHESIS": "caught"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in judged.stdout.splitlines() if line.startswith(_MARK)]
    if not lines:
        raise RuntimeError(f"{mutant.name} could not be judged:\n{judged.stdout}{judged.stderr}")
    return Verdict(**json.loads(lines[-1].removeprefix(_MARK)))


class _MutantImporter(importlib.abc.MetaPathFinder):
    """Imports one module from a changed syntax tree."""

    def __init__(self, mutant: Mutant) -> None:
        self._module = mutant.module
        path = str(source_path(mutant.module))
        self._loader = _TreeLoader(mutant.module, path)
        self._loader.code = compile(mutant.apply(), path, "exec")

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._module:
            return None
        return importlib.machinery.ModuleSpec(name, self._loader, origin=self._loader.path)


class _TreeLoader(importlib.machinery.SourceFileLoader):
    code: CodeType

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class _FirstFailure:
    """A plugin of pytest that keeps the first test that fails."""

    verdict = Verdict()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.verdict.caught_by:
            crash: Any = getattr(report.longrepr, "reprcrash", None)
            self.verdict = Verdict(report.nodeid, crash.message.partition("\n")[0] if crash else "")


def _by_seeds() -> Verdict:
    from tests.simulation.simulate import run_seed  # not before the importer is in place

    for seed in range(SEEDS):
        outcome = run_seed(seed)
        if outcome.failure:
            return Verdict(f"seed {seed}", outcome.failure.partition("\n")[0])
    return Verdict()


def _by_tests() -> Verdict:
    first = _FirstFailure()
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not thorough"]
    ended = pytest.main([*options, *_MODEL_TESTS], plugins=[first])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"the model's tests ended with {ended!r}")
    return first.verdict


def main(name: str) -> None:
    """Judge the mutant of this name in this process, and print the verdict."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    sys.meta_path.insert(0, _MutantImporter(mutant))
    logging.disable(logging.CRITICAL)
    verdict = _by_seeds()
    logging.disable(logging.NOTSET)
    if not verdict.caught_by:
        verdict = _by_tests()
    print(_MARK + json.dumps(asdict(verdict)))


if __name__ == "__main__":
    main(sys.argv[1])
