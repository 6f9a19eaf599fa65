"""Messages of a Redis stream, counted while workers, drivers and Redis itself are killed at random moments."""
