"""The driver's side of a transactional topology: its coordinator, the batches in flight, and their two phases."""
