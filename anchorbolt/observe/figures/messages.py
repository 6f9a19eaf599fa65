"""The metrics of the messages of rich spouts: how many are in flight, how old, and what holds the spouts back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from anchorbolt.observe.figures.families import Families

if TYPE_CHECKING:
    from anchorbolt.observe.observed_run import ObservedRun


def of_messages(families: Families, run: ObservedRun) -> Iterator[Metric]:
    """Yield the metrics. Never waits for a wave."""
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
