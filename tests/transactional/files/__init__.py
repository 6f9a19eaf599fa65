"""The spout over a directory of files, of transactional topologies."""
