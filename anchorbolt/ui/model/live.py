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
from anchorbolt.checkpoint.ports import TaskKey
from anchorbolt.config.declaration import by_key
from anchorbolt.config.settings import Settings
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.observe.figures.run_figures import Figures, SpoutFigure, WaveFigure
from anchorbolt.observe.figures.tasks import Figure, TaskFigures
from anchorbolt.observe.history.failures import messages_of, timed_out_in
from anchorbolt.observe.history.graph import graph_of
from anchorbolt.run.handle import RunHandle
from anchorbolt.run.start import RunStart
from anchorbolt.tracking.settlements import TaskMessages
from anchorbolt.ui.model.failures import messages_shown
from anchorbolt.ui.model.observation import (
    ComponentFigures,
    Latency,
    Now,
    Observation,
    OneTask,
    Recovery,
    RunningWave,
    WindowFigures,
)


class LiveRun:
    """A run of this process, from its start on."""

    def __init__(self, handle: RunHandle, origins: Mapping[str, str] | None = None) -> None:
        """`origins` says where each key of the configuration comes from, if that is known."""
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
        """Return what is known now."""
        handle, run, at = self._handle, self._handle.observe(), time.time()
        last, commit_age_s = run.figures.last_wave
        failure = handle.failure
        reports, earlier = handle.reports, run.earlier_records
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
            now=_now(handle, last, commit_age_s),
            state=cache(run.state_sizes.measured),
            failure=None if failure is None else {"error": type(failure).__name__, "text": str(failure)},
            failed_records=run.failed_records,
            letters=run.dead_letters,
            dead_letters=run.figures.dead_letters + sum(each.get("dead_letters", 0) for each in earlier),
            failed_messages=messages_shown(
                chain(
                    ((each.txid, messages_of(each.failures)) for each in reversed(reports)),
                    ((each["txid"], each.get("messages", ())) for each in reversed(earlier)),
                )
            ),
            timed_out=timed_out_in(earlier) + Counter(run.figures.timed_out),
            reported_errors=run.figures.reported_errors,
            configuration=run.plan.conf,
            origins=self._origins,
            facts=self._facts,
            recovery=Recovery(handle.recovery.action, handle.recovery.ms),
            is_tracked=run.plan.is_tracked,
            message_timeout_s=run.plan.settings.message_timeout_secs,
            max_checkpoint_age_s=run.plan.settings.health_max_checkpoint_age_secs,
        )


def starting(topology: str, max_checkpoint_age_s: float, began: float, start: RunStart | None = None) -> Observation:
    """Return what is known of a run that has no handle yet; it began at `began`, in seconds since 1970."""
    return Observation(
        at=time.time(),
        topology=topology,
        status="STARTING",
        is_live=True,
        uptime_s=time.time() - began,
        generation=0,
        txid=-1,
        graph={"topology": topology, "components": []},
        records=(),
        window=lambda window: WindowFigures(1e-9, {}, {}, {}, {}),
        now=Now(waiting={} if start is None else start.waiting, commit_age_s=time.time() - began),
        max_checkpoint_age_s=max_checkpoint_age_s,
    )


def _status(handle: RunHandle) -> str:
    if handle.observe().is_recovering:
        return "STARTING"
    return "PAUSED" if handle.paused else handle.status.value


def _now(handle: RunHandle, last: WaveReport | None, commit_age_s: float) -> Now:
    run = handle.observe()
    wave = run.current_wave
    ended, tasks, _ = run.tasks if wave is not None else (0, 0, 0)
    throttle = run.throttle
    return Now(
        wave=None
        if wave is None
        else RunningWave(wave.txid, wave.phase, wave.round, wave.failure, time.monotonic() - wave.began, wave.failures),
        waiting=dict(run.waiting),
        losses=run.losses,
        messages_in_flight=run.messages_in_flight,
        commit_age_s=commit_age_s,
        tasks_ended=ended,
        tasks_all=tasks,
        unended=run.unended_tasks if wave is not None else (),
        long_calls=run.long_calls,
        oldest_message_s=run.oldest_message_s,
        throttled="" if throttle is None else throttle.reason,
        throttle=throttle,
        offsets_behind=None if last is None else last.offsets_behind,
        pausing=handle.pausing,
        files_waiting=None if last is None else last.files_waiting,
        source_offsets_behind={} if last is None else last.source_offsets_behind,
        source_files_waiting={} if last is None else last.source_files_waiting,
    )


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


def _quantiles(distribution: Distribution) -> dict[str, float]:
    return {
        "count": distribution.count,
        "p50": round(distribution.quantile(0.5), 3),
        "p99": round(distribution.quantile(0.99), 3),
    }


def _guessed(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return `program` for each key whose value is not the default."""
    defaults = {key: each.default for key, each in by_key(Settings).items()}
    return {key: "program" for key, value in conf.items() if key not in defaults or value != defaults[key]}
