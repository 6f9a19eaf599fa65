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


@pytest.mark.parametrize(
    ("plugin", "source", "may_be_skipped"),
    [
        (True, SKIPPED_IN_BODY, False),
        (True, SKIPPED_BY_FIXTURE, False),
        (True, SKIPPED_BY_MARK, False),
        (True, SKIPPED_MODULE, False),
        (True, OPTIONAL, True),
        (True, EXPECTED_TO_FAIL, True),
        (False, SKIPPED_IN_BODY, True),
    ],
)
def test_only_a_marked_test_may_be_skipped(tmp_path: Path, plugin: bool, source: str, may_be_skipped: bool) -> None:
    (tmp_path / "test_it.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = optional_in_ci\n")
    options = ["-p", "tests.support.no_skips_in_ci"] if plugin else []
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if may_be_skipped:
        assert result.returncode == pytest.ExitCode.OK
    else:
        assert result.returncode in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}
        assert "may not be skipped in CI" in result.stdout
        assert "no such machine" in result.stdout
