"""The simulation of transactional topologies: their source, their two phases, and what must hold of their batches."""
