"""Runs a mutant in a process of its own, by seeds and then by the model's tests, and says what catches it.

    python -m tests.simulation.judging "no fence is ever refused"

The process imports the changed module from its syntax tree; no file is written.
"""

import logging
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any
from unittest import mock

import pytest

from tests.simulation.guards import ROOT, source_path
from tests.simulation.mutants import MUTANTS, Mutant

_MARK = "caught by: "
_MODEL_TESTS = (
    "tests/engine/workers/test_spouts.py",
    "tests/engine/workers/test_rounds.py",
    "tests/engine/workers/test_worker_rounds.py",
    "tests/state_backends/test_rules.py",
    "tests/state_backends/test_memory.py",
    "tests/state_backends/test_conformance.py::TestMemory",
    "tests/state_backends/test_key_value.py",
    "tests/state_backends/test_cache_budget.py",
    "tests/state_backends/test_read_positions.py",
    "tests/checkpoint",
    "tests/engine/task/test_bolt_task.py",
    "tests/state_backends/timed",
    "tests/engine/timed",
    "tests/engine/task/test_chained_tasks.py",
    "tests/engine/plan/test_wiring.py",
    "tests/topology/test_chained_bolts.py",
    "tests/engine/task/test_instances.py",
    "tests/engine/driver/test_flights.py",
    "tests/engine/driver/test_waves.py",
    "tests/engine/driver/test_sinks.py",
    "tests/engine/driver/test_older_driver.py",
    "tests/engine/driver/test_check_round.py",
    "tests/engine/driver/test_losses.py",
    "tests/engine/driver/test_failed_rounds.py",
    "tests/engine/driver/test_state_commits.py",
    "tests/transactional/parts/test_tries_again.py",
    "tests/tracking",
    "tests/reliability/test_redelivery.py",
    "tests/reliability/test_delivered_twice.py",
    "tests/reliability/test_rich_spouts.py",
    "tests/reliability/test_left_out_spouts.py",
    "tests/transactional/test_journals.py",
    "tests/reliability/test_dead_letters.py",
    "tests/reliability/test_refused_values.py",
    "tests/reliability/test_calls_outside_execute.py",
)


def judge(mutant: Mutant) -> str:
    """Judge a mutant in a process of its own. Raises `RuntimeError` where that process fails.

    Return the seed or the test that caught the mutant, and what it saw; empty if none did.
    """
    judged = subprocess.run(
        [sys.executable, "-m", "tests.simulation.judging", mutant.name],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ANCHORBOLT_HYPOTHESIS": "caught"},
        capture_output=True,
        text=True,
        check=False,
    )
    _, mark, catcher = judged.stdout.rpartition(_MARK)
    if judged.returncode or not mark:
        raise RuntimeError(f"{mutant.name} could not be judged:\n{judged.stdout}{judged.stderr}")
    return catcher.strip()


def _import_broken(mutant: Mutant) -> None:
    """Have this process import a mutant's module with the break."""
    code = compile(mutant.apply(), str(source_path(mutant.module)), "exec")
    get_code = SourceFileLoader.get_code

    def get_code_or_broken(loader: SourceFileLoader, name: str) -> CodeType | None:
        return code if name == mutant.module else get_code(loader, name)

    mock.patch.object(SourceFileLoader, "get_code", get_code_or_broken).start()


def _caught_by_a_seed(mutant: Mutant) -> str:
    from tests.simulation.simulate import run_seed  # not before the broken module can be imported

    for seed in mutant.seeds:
        outcome = run_seed(seed)
        if outcome.failure:
            return f"seed {seed} | {outcome.failure.splitlines()[0]}"
    return ""


class _FirstFailure:
    """A plugin of pytest that keeps the first test that fails."""

    text = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.text:
            crash: Any = getattr(report.longrepr, "reprcrash", None)
            self.text = f"{report.nodeid} | " + (crash.message.partition("\n")[0] if crash else "")


def _caught_by_a_test() -> str:
    first = _FirstFailure()
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow and not thorough"]
    ended = pytest.main([*options, *_MODEL_TESTS], plugins=[first])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"the model's tests ended with {ended!r}")
    return first.text


def main(name: str) -> None:
    """Judge the mutant of this name in this process, and print what caught it."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    _import_broken(mutant)
    logging.disable(logging.CRITICAL)
    catcher = _caught_by_a_seed(mutant)
    logging.disable(logging.NOTSET)
    print(_MARK + (catcher or _caught_by_a_test()))


if __name__ == "__main__":
    main(sys.argv[1])
