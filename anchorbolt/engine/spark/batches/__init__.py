"""The batches of a transactional topology on Spark: the jobs of their two phases, and the way of their metadata."""
