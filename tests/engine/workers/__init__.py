"""Workers that stay: their frames, connections and rounds, without Spark."""
