"""The checkpoint of tuple trees: wraps the ackers, and executes tuples whose trees are tracked."""
