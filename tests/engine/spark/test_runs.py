"""Which runs a worker forgets: those that have ended, and never one that began after the job was submitted."""

from anchorbolt.engine.spark.runs import KnownRuns, LiveRuns


def test_a_worker_that_was_missed_forgets_an_ended_run_with_its_next_task() -> None:
    driver, worker = LiveRuns(), KnownRuns()
    driver.begin("a")
    assert worker.ended("a", str(driver), []) == []
    driver.end("a")
    driver.begin("b")
    assert worker.ended("b", str(driver), ["a"]) == ["a"]
    assert worker.ended("b", str(driver), ["b"]) == []


def test_a_worker_keeps_a_run_of_which_an_older_job_does_not_know() -> None:
    driver, worker = LiveRuns(), KnownRuns()
    driver.begin("a")
    before_b = str(driver)
    driver.begin("b")
    assert worker.ended("b", str(driver), []) == []
    assert worker.ended("a", before_b, ["b"]) == []
    driver.end("b")
    assert worker.ended("a", str(driver), ["a", "b"]) == ["b"]


def test_a_late_task_of_an_ended_run_keeps_its_own_and_the_next_task_drops_it() -> None:
    driver, worker = LiveRuns(), KnownRuns()
    driver.begin("a")
    late = str(driver)
    driver.begin("b")
    driver.end("a")
    assert worker.ended("a", late, []) == []
    assert worker.ended("b", str(driver), ["a"]) == ["a"]


def test_the_end_of_a_run_that_never_began_changes_nothing() -> None:
    driver = LiveRuns()
    driver.begin("a")
    before = str(driver)
    driver.end("b")
    assert str(driver) == before
