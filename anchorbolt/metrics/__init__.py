"""What a component measures: counters, gauges, histograms and timers, registered by name in `TopologyContext`.

They count what committed waves did. A round that failed adds nothing, so these figures agree with the state.
"""

from anchorbolt.metrics.kinds import Counter, Gauge, Histogram, Timer

__all__ = ["Counter", "Gauge", "Histogram", "Timer"]
