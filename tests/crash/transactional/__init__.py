"""Kills in the two phases of the batches of a transactional topology."""
