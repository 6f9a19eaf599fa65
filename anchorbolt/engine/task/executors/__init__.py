"""Runs a bolt in its task: wraps it, handles the checkpoint tuples, and collects its acks and fails."""
