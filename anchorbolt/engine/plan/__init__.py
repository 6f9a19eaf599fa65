"""How a topology is run: which task runs where. Fixed for a run; pure."""
