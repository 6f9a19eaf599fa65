"""Observes runs: `figures` sums waves for the page and Prometheus; `history` keeps the latest waves."""
