"""The batches of a transactional topology: their metadata, their bolts, and the hand-offs between their two phases."""
