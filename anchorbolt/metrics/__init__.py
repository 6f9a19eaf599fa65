"""The metrics of a component: counters, gauges, histograms and timers, registered by name in `TopologyContext`.

They count only committed waves. A failed round adds nothing, so these figures agree with the state.
"""

from anchorbolt.metrics.kinds import Counter, Gauge, Histogram, Timer

__all__ = ["Counter", "Gauge", "Histogram", "Timer"]
