"""A pytest plugin: a skipped test is a failed test, unless it is marked `optional_in_ci`.

A skip says "this machine cannot run that". The machine of continuous integration has to be able to run everything that
the project promises: there, a Redis that does not start or a missing Java is a fault to be mended, and a green run that
had left those tests out would claim what nobody has seen. On a developer's machine a skip stays a skip. The marker is
for what really depends on the machine (another operating system, a newer Python) and is proven elsewhere.
"""

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a test, its set-up included, into a failure."""
    report = yield
    expected_to_fail = hasattr(report, "wasxfail")
    if report.skipped and not expected_to_fail and item.get_closest_marker("optional_in_ci") is None:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped in CI ({_reason(report)})"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} may not be skipped in CI ({_reason(report)})"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    # pytest gives a skip as (path, line, reason).
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
