"""Rows of which some are poison, counted while workers, drivers and Redis are killed: each is a dead letter once."""
