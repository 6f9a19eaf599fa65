"""The parts of a profile are apart, and add up to what the tasks measured."""

from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.task.executors.wrapped_bolts import TaskOutcome
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.observe.figures.profile import profile_of
from anchorbolt.observe.figures.run_figures import RunFigures
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.attempt import StateCounters
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import finished, word_count


def one(ms: float) -> Distribution:
    found = Distribution()
    found.add(ms)
    return found


def test_the_parts_of_a_task_are_apart() -> None:
    plan = prepare_plan(word_count(FeederSpout(["sentence"])), None, memory=MemoryStateProvider())
    figures = RunFigures(plan)
    counters = StateCounters(store_ms={"read": one(3.0), "stage": one(4.0), "seal": one(1.0)})
    bolt = TaskReport(("count", 1), "a", 1, tuples_in=10, decode_ms=2.0, execute_ms=20.0, encode_ms=5.0, prepare_ms=8.0)
    bolt.stage_ms, bolt.seal_ms, bolt.outcome = 4.0, 1.0, TaskOutcome(counters)
    spout = TaskReport(("sentences", 0), "b", 1, tuples_in=3, source_ms=7.0, encode_ms=1.0)
    wave = WaveReport(0, 0, source_ms=7.0, compute_ms=20.0, prepare_ms=8.0, decide_ms=2.0, commit_ms=3.0)
    figures.add(wave, [bolt, spout])
    profile = profile_of(figures.over())
    found = {each.component: each for each in profile.components}
    assert found["count"][1:] == (10, 0.0, 2.0, 15.0, 3.0, 5.0, 5.0)
    assert found["count"].total_ms == bolt.busy_ms == 30.0
    assert found["sentences"][1:] == (3, 7.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    assert (profile.rounds_ms, profile.decide_ms, profile.commit_ms) == (35.0, 2.0, 3.0)
    assert profile.working == (30.0 + 1.0) / 35.0


def test_a_run_measures_its_parts() -> None:
    spout = FeederSpout(["sentence"], [[("a b c",)] * 2000])
    handle = finished(word_count(spout))
    profile = profile_of(handle.observe().figures.over())
    found = {each.component: each for each in profile.components}
    assert found["split"].tuples == 2000
    assert found["count"].tuples == 6000
    for each in (found["split"], found["count"]):
        assert each.decode_ms > 0
        assert each.execute_ms > 0
    assert found["sentences"].encode_ms > 0
    assert found["split"].encode_ms > 0
    assert found["count"].stage_ms > 0
    assert 0 < profile.working <= 2
