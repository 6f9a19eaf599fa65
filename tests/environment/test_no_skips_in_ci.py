"""What `tests/support/no_skips_in_ci.py` makes of a skipped test, seen in a pytest of its own."""

from pathlib import Path

import pytest

from tests.support.programs import ended

pytestmark = pytest.mark.thorough

SKIP = "pytest.skip('no such machine')"


@pytest.mark.parametrize(
    ("plugin", "source", "may_be_skipped"),
    [
        (True, f"def test_it(): {SKIP}", False),
        (True, f"@pytest.fixture\ndef server(): {SKIP}\ndef test_it(server): pass", False),
        (True, "@pytest.mark.skip(reason='no such machine')\ndef test_it(): pass", False),
        (True, "pytest.skip('no such machine', allow_module_level=True)", False),
        (True, f"@pytest.mark.optional_in_ci\ndef test_it(): {SKIP}", True),
        (True, "@pytest.mark.xfail\ndef test_it(): assert False", True),
        (False, f"def test_it(): {SKIP}", True),
    ],
)
def test_only_a_marked_test_may_be_skipped(tmp_path: Path, plugin: bool, source: str, may_be_skipped: bool) -> None:
    (tmp_path / "test_it.py").write_text(f"import pytest\n{source}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = optional_in_ci\n")
    options = ["-p", "tests.support.no_skips_in_ci"] if plugin else []
    result = ended("-m", "pytest", "-q", "-p", "no:cacheprovider", *options, cwd=tmp_path)
    if may_be_skipped:
        assert result.returncode == pytest.ExitCode.OK
    else:
        assert result.returncode in {pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED}
        assert "may not be skipped in CI" in result.stdout
        assert "no such machine" in result.stdout
