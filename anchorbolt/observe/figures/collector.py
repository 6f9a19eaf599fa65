"""The figures of a run for Prometheus: a collector that `prometheus_client` asks at each scrape.

The names follow https://prometheus.io/docs/practices/naming/; docs/operating_reference.md lists them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.metrics.distribution import Distribution
from anchorbolt.observe.figures.families import Distributions, Families, user_metric
from anchorbolt.observe.figures.run_figures import Figures, SpoutFigure, WaveFigure
from anchorbolt.observe.figures.tasks import Figure, RegisteredMetrics
from anchorbolt.observe.figures.windows import ALL_TIME, TEN_MINUTES

if TYPE_CHECKING:
    from anchorbolt.observe.observed_run import ObservedRun

_TASK = ("component", "task")

_STARTED = time.time()  # roughly when this process started

Waiting = Callable[[], Mapping[str, float]]
"""Returns the seconds of each wait of a run, by its name."""


class RunCollector(Collector):
    """Yields the metrics of one run, each with a label `topology`. Counters count this run's committed waves."""

    def __init__(self, run: ObservedRun) -> None:
        """Make a collector, to be registered with a registry of `prometheus_client`."""
        self._run = run
        self._families = Families(run.run.topology)
        run.state_sizes.start()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry does not scrape when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now. Never waits for a wave."""
        families, run = self._families, self._run
        figures = run.figures.over(ALL_TIME)
        yield from self._now()
        for wave in WaveFigure:
            yield families.counter(wave.metric, wave.text, [((), figures.waves[wave] * wave.unit)])
        for figure in filter(lambda each: each.metric, Figure):
            samples = [((each.task[0], str(each.task[1])), each[figure] * figure.unit) for each in figures.tasks]
            yield families.counter(figure.metric, figure.text, samples, _TASK)
        for told in SpoutFigure:
            of_spouts = [((spout,), each[told]) for spout, each in figures.spouts.items()]
            yield families.counter(told.metric, told.text, of_spouts, ["spout"])
        text = "Share of the last 10 minutes in which the task worked, and did not wait."
        capacities = [
            ((each.task[0], str(each.task[1])), each.capacity) for each in run.figures.tasks_over(TEN_MINUTES)
        ]
        yield families.gauge("task_capacity_ratio", text, capacities, _TASK)
        yield from self._shared(figures)
        yield from self._state()
        yield from _registered(families, run.figures.registered)

    def _now(self) -> Iterator[Metric]:
        families, run = self._families, self._run
        last, age_s = run.figures.last_wave
        txid = run.run.recovery.txid if last is None else last.txid
        yield start_time(families)
        yield age_of_checkpoint(families, age_s)
        yield families.gauge("committed_txid", "The last committed txid.", txid)
        yield families.gauge("generation", "How often the topology was started.", run.run.recovery.generation)
        text = "Time that the last start took to recover, and what it did."
        recovered = [((run.run.recovery.action,), run.run.recovery.ms / 1000)]
        yield families.gauge("recovery_seconds", text, recovered, ["action"])
        yield families.gauge("wave_losses", "Losses in the current wave so far.", run.losses)
        current = run.current_wave
        age_s = 0.0 if current is None else time.monotonic() - current.began
        yield families.gauge("wave_age_seconds", "Time since the current wave began; 0 between two waves.", age_s)
        text = "The round of the current wave, from 1; 0 between two waves."
        yield families.gauge("wave_round", text, 0 if current is None else current.round)
        yield waiting_seconds(families, run.waiting)
        yield from of_messages(families, run)
        yield from of_times(families, run)
        yield from of_workers(families, run.workers)
        text = "For how long a call of a bolt or spout has not returned, from two seconds on."
        calls = [((each.kind, each.component, str(each.task_index)), each.seconds) for each in run.long_calls]
        yield families.gauge("call_seconds", text, calls, ["kind", *_TASK])
        for name, text, behind in () if last is None else _lags(last):
            if behind:
                yield families.gauge(name, text, [((spout,), number) for spout, number in behind.items()], ["spout"])
        yield families.gauge("paused", "1 while the run is paused.", int(run.run.paused))
        status = "starting" if run.is_recovering else run.run.status.value.lower()
        yield run_status(families, [each.value.lower() for each in type(run.run.status)], status)

    def _shared(self, figures: Figures) -> Iterator[Metric]:
        families = self._families
        edges = [(edge, tuples) for edge, tuples in figures.transferred.items()]
        text = "Tuples of a stream that a bolt received."
        yield families.counter("received_tuples", text, edges, ["source", "stream", "target"])
        phases: Distributions = {(phase,): each for phase, each in figures.phases_ms.items()}
        yield families.histogram("wave_phase_seconds", "Time of a phase of a wave.", phases, ["phase"], 0.001)
        calls: Distributions = {(operation,): each for operation, each in figures.store_ms.items()}
        yield families.histogram("store_seconds", "Time of a call of the store.", calls, ["operation"], 0.001)
        complete: Distributions = {(spout,): each for spout, each in figures.complete_ms.items()}
        text = "Time from the emit of a message to its ack, which follows the commit: Storm's complete latency."
        yield families.histogram("complete_seconds", text, complete, ["spout"], 0.001)

    def _state(self) -> Iterator[Metric]:
        sizes = self._run.state_sizes.measured().tasks
        for name, text in (("keys", "Keys of the task's committed state."), ("bytes", "Bytes of the store for it.")):
            found = [((task[0], str(task[1])), getattr(size, name)) for task, size in sizes.items()]
            known = [(labels, value) for labels, value in found if value is not None]
            yield self._families.gauge(f"state_{name}", text, known, _TASK)


def _lags(last: WaveReport) -> Iterator[tuple[str, str, Mapping[str, int]]]:
    text = "Offsets that the source had and no wave had read when the last wave ended."
    yield "source_offsets_behind", text, last.source_offsets_behind
    yield "source_files_waiting", "Files that waited when the last wave ended.", last.source_files_waiting


def _registered(families: Families, metrics: RegisteredMetrics) -> Iterator[Metric]:
    """Yield the metrics of components. Two names that differ only in `.` and `-` are one metric."""
    numbers: defaultdict[tuple[str, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for metric, number in metrics.numbers.items():
        numbers[metric.kind, user_metric(metric.name)][metric.task[0], str(metric.task[1])] = number
    for (kind, name), samples in numbers.items():
        make = families.counter if kind == "counter" else families.gauge
        yield make(name, f"A {kind} that components have registered.", list(samples.items()), _TASK)
    distributions: defaultdict[tuple[str, str], dict[tuple[str, ...], Distribution]] = defaultdict(dict)
    for metric, distribution in metrics.distributions.items():
        distributions[metric.kind, user_metric(metric.name)][metric.task[0], str(metric.task[1])] = distribution
    for (kind, name), found in distributions.items():
        shown = f"{name}_seconds" if kind == "timer" else name
        yield families.histogram(shown, f"A {kind} that components have registered.", found, _TASK)


def of_messages(families: Families, run: ObservedRun) -> Iterator[Metric]:
    """Yield the metrics of messages. Never waits for a wave."""
    yield families.gauge("messages_in_flight", "Messages neither acked nor failed.", run.messages_in_flight)
    text = "Time since the oldest message in flight was emitted; 0 without one."
    yield families.gauge("oldest_message_seconds", text, run.oldest_message_s)
    throttle, ended = run.throttle, run.run.status.value != "RUNNING"
    text = "1 while back pressure holds the rich spouts."
    yield families.gauge("throttled", text, int(throttle is not None and throttle.reason != "" and not ended))
    text = "Time for which back pressure has held the rich spouts."
    yield families.counter("throttled_seconds", text, [((), 0.0 if throttle is None else throttle.total_seconds)])
    text = "Messages that timed out, by the task that held a tuple of them last; without a name if it is not known."
    timed_out = [
        ((spout, component, str(index) if component else ""), number)
        for (spout, (component, index)), number in run.figures.timed_out.items()
    ]
    yield families.counter("timed_out_messages", text, timed_out, ["spout", "component", "task"])


def of_times(families: Families, run: ObservedRun) -> Iterator[Metric]:
    """Yield the metrics of timers and watermarks. Never waits for a wave."""
    timed = {bolt: times for bolt, times in run.times.items() if run.plan.has_time(bolt)}
    timers = [((bolt,), times.waiting) for bolt, times in timed.items() if run.plan.times[bolt].has_timers]
    yield families.gauge("timers_waiting", "About how many timers of the bolt are set.", timers, ["component"])
    marks = {bolt: times.watermark for bolt, times in timed.items() if times.watermark is not None}
    text = "The watermark of the bolt, as Unix time."
    samples = [((bolt,), at / 1000) for bolt, at in marks.items()]
    yield families.gauge("watermark_seconds", text, samples, ["component"])
    text = "How far the watermark is behind the clock."
    samples = [((bolt,), (run.clock_ms - at) / 1000) for bolt, at in marks.items()]
    yield families.gauge("watermark_lag_seconds", text, samples, ["component"])


def of_workers(families: Families, workers: Sequence[WorkerFigures]) -> Iterator[Metric]:
    """Yield the metrics of workers that stay, which begin at 0 with each process."""
    text = "When the process of the worker started, as Unix time."
    started = [((str(each.slot), each.host, str(each.pid)), each.since) for each in workers]
    yield families.gauge("worker_start_time_seconds", text, started, ["worker", "host", "pid"])
    for make, name, text in (
        (families.gauge, "tasks", "Tasks that the worker holds."),
        (families.gauge, "buffered_bytes", "Bytes of tuples in the worker's memory that wait for its tasks."),
        (families.gauge, "cached_entries", "Committed entries of states in the worker's cache."),
        (families.counter, "spilled_bytes", "Bytes of tuples that the worker wrote to files, to wait there."),
    ):
        samples = [((str(each.slot),), float(getattr(each, name))) for each in workers]
        yield make(f"worker_{name}", text, samples, ["worker"])
    sent = [((str(each.slot), str(to)), float(size)) for each in workers for to, size in each.sent_bytes.items()]
    yield families.counter("worker_sent_bytes", "Bytes that the worker sent to another one.", sent, ["worker", "to"])


class StartCollector(Collector):
    """Yields the few metrics of a run before it has a handle, under the names of `RunCollector`."""

    def __init__(self, topology: str, statuses: Iterable[str], waiting: Waiting) -> None:
        """`statuses`: all possible statuses after the start."""
        self._families = Families(topology)
        self._statuses = tuple(statuses)
        self._waiting = waiting
        self._began = time.monotonic()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that a registry does not scrape when the collector is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        yield start_time(self._families)
        yield age_of_checkpoint(self._families, time.monotonic() - self._began)
        yield waiting_seconds(self._families, self._waiting())
        yield run_status(self._families, self._statuses, "starting")


def start_time(families: Families) -> Metric:
    """Return the metric that changes whenever a supervisor starts the driver again, even if it never recovers."""
    return families.gauge("start_time_seconds", "When the driver's process started, as Unix time.", _STARTED)


def age_of_checkpoint(families: Families, age_s: float) -> Metric:
    """Return the metric of the time since the last commit."""
    return families.gauge(
        "checkpoint_age_seconds", "Time since the last commit; before the first, since the start.", age_s
    )


def waiting_seconds(families: Families, waiting: Mapping[str, float]) -> Metric:
    """Return the metric of a run's waits."""
    text = "For how long the run has waited for something, such as its store."
    samples = [((waits_for,), seconds) for waits_for, seconds in waiting.items()]
    return families.gauge("waiting_seconds", text, samples, ["waits_for"])


def run_status(families: Families, statuses: Iterable[str], status: str) -> Metric:
    """Return the metric of a run's status: one of `statuses`, or `starting` until it has recovered."""
    states = [((each,), float(each == status)) for each in ("starting", *statuses)]
    return families.gauge("run_status", "1 for the status that the run has.", states, ["status"])
