"""The Kafka spout of transactional topologies."""
