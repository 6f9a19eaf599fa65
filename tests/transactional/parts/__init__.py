"""The parts of the engine of batches, by themselves."""
