"""Which error gives which exit code: each class of the tree has one."""

import pytest

from anchorbolt import errors
from anchorbolt.cli import exit_codes

BEFORE_THE_START = {
    exit_codes.JOB_FAILED: {
        "AnchorboltError",
        "BoltError",
        "FaultInjected",
        "WaveFailed",
        "SerializationError",
        "UnsupportedJavaClass",
        "UnsupportedValue",
    },
    exit_codes.WRONG_USAGE: {"ConfigError", "TopologyError", "JobError"},
    exit_codes.PLATFORM_UNUSABLE: {"PlatformError"},
    exit_codes.STATE_REFUSED: {
        *("StateError", "StateUnavailable", "SinkUnavailable", "Fenced", "StaleAttempt", "StateRegressed"),
        *("CodecMismatch", "StateCorrupted", "QueryChanged", "MigrationRefused"),
    },
}


def code_of(name: str, *, running: bool) -> int:
    error = getattr(errors, name)
    return exit_codes.exit_code(error.__new__(error), running=running)


def test_every_error_has_an_exit_code_of_its_own_choice() -> None:
    assert set().union(*BEFORE_THE_START.values()) == set(errors.__all__)


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for code, names in BEFORE_THE_START.items() for name in sorted(names)]
)
def test_an_error_before_the_start_gives_its_code(name: str, code: int) -> None:
    assert code_of(name, running=False) == code


@pytest.mark.parametrize("name", sorted(BEFORE_THE_START[exit_codes.WRONG_USAGE]))
def test_wrong_usage_means_that_nothing_ran(name: str) -> None:
    assert code_of(name, running=True) == exit_codes.JOB_FAILED


@pytest.mark.parametrize("name", sorted(BEFORE_THE_START[exit_codes.STATE_REFUSED]))
def test_a_store_that_refuses_later_gives_the_same_code(name: str) -> None:
    assert code_of(name, running=True) == exit_codes.STATE_REFUSED


def test_any_other_exception_is_a_failed_job() -> None:
    assert exit_codes.exit_code(ZeroDivisionError(), running=False) == exit_codes.JOB_FAILED
