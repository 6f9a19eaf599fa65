"""The three-phase checkpoint: the state machine, the decision record, recovery, and the bolts' side of it."""
