"""Lines of a stream spout: each batch is a transaction, and all that it has to come to is known beforehand."""
