"""From a topology and its configuration to a run: the execution plan, and the handle."""
