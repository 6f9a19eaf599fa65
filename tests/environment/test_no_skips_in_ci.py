"""What `tests/support/no_skips_in_ci.py` makes of a skipped test, seen in a pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough

CHECKOUT = Path(__file__).resolve().parents[2]

SKIPPED_IN_BODY = """
import pytest
def test_it(): pytest.skip("no such machine")
"""
SKIPPED_BY_FIXTURE = """
import pytest
@pytest.fixture
def server(): pytest.skip("no such machine")
def test_it(server): pass
"""
SKIPPED_BY_MARK = """
import pytest
@pytest.mark.skip(reason="no such machine")
def test_it(): pass
"""
SKIPPED_MODULE = """
import pytest
pytest.skip("no such machine", allow_module_level=True)
"""
OPTIONAL = """
import pytest
@pytest.mark.optional_in_ci
def test_it(): pytest.skip("no such machine")
"""
EXPECTED_TO_FAIL = """
import pytest
@pytest.mark.xfail
def test_it(): assert False
"""


def run_pytest(directory: Path, source: str, *, plugin: bool) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(source)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers = optional_in_ci\n")
    options = ["-p", "tests.support.no_skips_in_ci"] if plugin else []
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("source", [SKIPPED_IN_BODY, SKIPPED_BY_FIXTURE, SKIPPED_BY_MARK, SKIPPED_MODULE])
def test_a_skip_fails_and_says_its_reason(tmp_path: Path, source: str) -> None:
    result = run_pytest(tmp_path, source, plugin=True)
    assert result.returncode in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}
    assert "may not be skipped in CI" in result.stdout
    assert "no such machine" in result.stdout


@pytest.mark.parametrize("source", [OPTIONAL, EXPECTED_TO_FAIL])
def test_a_marked_test_may_be_skipped_and_an_expected_failure_is_no_skip(tmp_path: Path, source: str) -> None:
    assert run_pytest(tmp_path, source, plugin=True).returncode == pytest.ExitCode.OK


def test_without_the_plugin_a_skip_is_a_skip(tmp_path: Path) -> None:
    assert run_pytest(tmp_path, SKIPPED_IN_BODY, plugin=False).returncode == pytest.ExitCode.OK
