"""The batches of a transactional topology: their metadata, their bolts, and what is kept between their two phases."""
