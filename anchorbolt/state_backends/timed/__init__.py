"""Due times in a namespace: entries that expire, timers, and the index by time that both use."""
