"""Real kills: a job in processes of its own, killed at every named point, on every provider."""
