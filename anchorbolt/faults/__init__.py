"""Named points between the steps of the protocol, and the faults that a test injects at them. For tests only."""
