"""Real kills of a job with timers, TTLs and event time."""
