"""Observes a run of this process. Never waits for a wave, nor for the store."""

from __future__ import annotations

import platform
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any

import anchorbolt
from anchorbolt.checkpoint.current_wave import CurrentWave
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.config.declaration import by_key
from anchorbolt.config.settings import Settings
from anchorbolt.engine.sources.throttle import WINDOW_S, Throttle
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.observe.figures.run_figures import Figures, SpoutFigure, WaveFigure
from anchorbolt.observe.figures.tasks import Figure, TaskFigures
from anchorbolt.observe.history.failures import messages_of, timed_out_in
from anchorbolt.observe.history.recording import graph_of
from anchorbolt.observe.history.records import Graph, Wave
from anchorbolt.observe.observed_run import ObservedRun
from anchorbolt.run.handle import RunHandle
from anchorbolt.run.start import RunStart
from anchorbolt.tracking.settlements import TaskMessages
from anchorbolt.ui.answers import (
    Failure,
    LongCall,
    Now,
    Quantiles,
    Recovery,
    RunningWave,
    SourceLag,
    SpoutLoad,
    Task,
    Throttled,
    Waiting,
)
from anchorbolt.ui.model.history import messages_shown
from anchorbolt.ui.model.observation import ComponentFigures, Latency, Observation, OneTask, WindowFigures

_MOST_NAMED = 50
_MOST_CALLS = 20


class LiveRun:
    """A run of this process, from its start on."""

    def __init__(self, handle: RunHandle, origins: Mapping[str, str] | None = None) -> None:
        """`origins`: the source of each key of the configuration, if known."""
        self._handle = handle
        handle.observe().state_sizes.start()
        plan = handle.observe().plan
        self._graph = graph_of(plan)
        self._origins = _guessed(plan.conf) if origins is None else origins
        self._facts = {
            "anchorbolt": anchorbolt.__version__,
            "python": platform.python_version(),
            "state": plan.provider.describe(),
            "checkpoint": plan.checkpoint_location,
        }

    def observe(self) -> Observation:
        """Observe the run now."""
        handle, run, at = self._handle, self._handle.observe(), time.time()
        last, commit_age_s = run.figures.last_wave
        failure = handle.failure
        reports, wave = handle.reports, run.current_wave
        earlier = [each for each in run.earlier_records if isinstance(each, Wave)]
        return Observation(
            at=at,
            topology=handle.topology,
            status=_status(handle),
            is_live=True,
            uptime_s=run.figures.age_s,
            generation=handle.recovery.generation,
            txid=handle.recovery.txid if last is None else last.txid,
            graph=self._graph,
            records=run.records,
            window=cache(lambda window: _window(run.figures.over(window))),
            now=_now(handle, wave, last, commit_age_s),
            wave=wave,
            state=cache(run.state_sizes.measured),
            failure=None if failure is None else Failure(error=type(failure).__name__, text=str(failure)),
            failed_records=run.failed_records,
            letters=run.dead_letters,
            dead_letters=run.figures.dead_letters + sum(each.dead_letters for each in earlier),
            failed_messages=messages_shown(
                chain(
                    ((each.txid, messages_of(each.failures)) for each in reversed(reports)),
                    ((each.txid, each.messages) for each in reversed(earlier)),
                )
            ),
            timed_out=timed_out_in(earlier) + Counter(run.figures.timed_out),
            reported_errors=run.figures.reported_errors,
            configuration=run.plan.conf,
            origins=self._origins,
            facts=self._facts,
            recovery=Recovery(action=handle.recovery.action, ms=round(handle.recovery.ms, 1)),
            times={bolt: times for bolt, times in run.times.items() if run.plan.has_time(bolt)},
            workers=run.workers,
            is_tracked=run.plan.is_tracked,
            message_timeout_s=run.plan.settings.message_timeout_secs,
            max_checkpoint_age_s=run.plan.settings.health_max_checkpoint_age_secs,
        )


def starting(topology: str, max_checkpoint_age_s: float, began: float, start: RunStart | None = None) -> Observation:
    """Observe a run that has no handle yet; it began at `began`, in seconds since 1970."""
    return Observation(
        at=time.time(),
        topology=topology,
        status="STARTING",
        is_live=True,
        uptime_s=time.time() - began,
        generation=0,
        txid=-1,
        graph=Graph(topology, []),
        records=(),
        window=lambda window: WindowFigures(1e-9, {}, {}, {}, {}),
        now=Now(
            waiting=_waiting({} if start is None else start.waiting),
            commit_age_secs=round(time.time() - began, 1),
            messages_in_flight=0,
            oldest_message_secs=0.0,
        ),
        max_checkpoint_age_s=max_checkpoint_age_s,
    )


def _status(handle: RunHandle) -> str:
    if handle.observe().is_recovering:
        return "STARTING"
    return "PAUSED" if handle.paused else handle.status.value


def _now(handle: RunHandle, wave: CurrentWave | None, last: WaveReport | None, commit_age_s: float) -> Now:
    run, throttle = handle.observe(), handle.observe().throttle
    offsets = {} if last is None else last.source_offsets_behind
    files = {} if last is None else last.source_files_waiting
    return Now(
        pausing=handle.pausing,
        commit_age_secs=round(commit_age_s, 1),
        wave=None if wave is None else _running(run, wave),
        waiting=_waiting(run.waiting),
        losses=run.losses,
        messages_in_flight=run.messages_in_flight,
        throttled="" if throttle is None else throttle.reason,
        throttled_by=None if throttle is None else _task(throttle.by),
        throttle=None if throttle is None else throttled(throttle, run.figures.age_s),
        oldest_message_secs=round(run.oldest_message_s, 1),
        long_calls=[
            LongCall(
                kind=each.kind,
                component=each.component,
                task=each.task_index,
                method=each.method,
                seconds=round(each.seconds, 1),
                stack=each.stack,
            )
            for each in run.long_calls[:_MOST_CALLS]
        ],
        offsets_behind=None if last is None else last.offsets_behind,
        files_waiting=None if last is None else last.files_waiting,
        sources=[
            SourceLag(spout=spout, offsets_behind=offsets.get(spout), files_waiting=files.get(spout))
            for spout in dict.fromkeys((*offsets, *files))
        ],
    )


def _running(run: ObservedRun, wave: CurrentWave) -> RunningWave:
    (ended, tasks, _), unended = run.tasks, run.unended_tasks
    return RunningWave(
        txid=wave.txid,
        phase=wave.phase,
        round=wave.round,
        last_failure=wave.failure,
        seconds=round(time.monotonic() - wave.began, 1),
        tasks_ended=ended,
        tasks_total=tasks,
        waits_for_tasks=[Task(component=component, task=index) for component, index in unended[:_MOST_NAMED]],
        waits_for_tasks_total=len(unended),
    )


def _waiting(waiting: Mapping[str, float]) -> list[Waiting]:
    return [Waiting(waits_for=name, seconds=round(seconds, 1)) for name, seconds in waiting.items()]


def throttled(throttle: Throttle, uptime_s: float) -> Throttled:
    """Return the back pressure on rich spouts of a run of this age."""
    return Throttled(
        reason=throttle.reason,
        by=_task(throttle.by),
        seconds=round(throttle.seconds, 1),
        window_seconds=round(throttle.window_seconds, 1),
        of_seconds=round(min(uptime_s, WINDOW_S), 1),
        spouts=[
            SpoutLoad(spout=each.spout, messages_in_flight=each.in_flight, most=each.most, tasks_held=each.held)
            for each in throttle.spouts
        ],
    )


def _task(task: TaskKey | None) -> Task | None:
    return None if task is None else Task(component=task[0], task=task[1])


def _window(figures: Figures) -> WindowFigures:
    by_component: defaultdict[str, list[TaskFigures]] = defaultdict(list)
    for each in figures.tasks:
        by_component[each.task[0]].append(each)
    return WindowFigures(
        seconds=figures.seconds,
        components={name: _component(tasks, figures.messages) for name, tasks in by_component.items()},
        transferred=figures.transferred,
        messages={
            spout: {figure.name.lower(): float(numbers[figure]) for figure in SpoutFigure}
            for spout, numbers in figures.spouts.items()
        },
        waves={figure.name.lower(): float(figures.waves[figure]) for figure in WaveFigure},
        store_ms={name: _quantiles(each) for name, each in figures.store_ms.items()},
        phases_ms={name: _quantiles(each) for name, each in figures.phases_ms.items()},
        complete_ms={spout: Latency(each.total, each.count) for spout, each in figures.complete_ms.items()},
    )


def _component(tasks: list[TaskFigures], messages: Mapping[TaskKey, TaskMessages]) -> ComponentFigures:
    totals = sum(each.numbers for each in tasks)
    return ComponentFigures(
        amounts=_amounts(totals),
        capacity=max(each.capacity for each in tasks),
        tasks=[OneTask(each.task[1], _amounts(each.numbers), each.capacity, messages.get(each.task)) for each in tasks],
    )


def _amounts(numbers: Any) -> dict[Figure, float]:
    return dict(zip(Figure, numbers.tolist(), strict=True))


def _quantiles(distribution: Distribution) -> Quantiles:
    p50, p99 = (round(distribution.quantile(share), 3) for share in (0.5, 0.99))
    return Quantiles(count=distribution.count, p50=p50, p99=p99)


def _guessed(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return `program` for each key whose value is not the default."""
    defaults = {key: each.default for key, each in by_key(Settings).items()}
    return {key: "program" for key, value in conf.items() if key not in defaults or value != defaults[key]}
