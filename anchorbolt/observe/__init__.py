"""What only looks at a run: `figures` of its waves, for the page and Prometheus; `history`, its latest waves."""
