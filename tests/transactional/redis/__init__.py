"""The Redis Streams spouts of transactional topologies."""
