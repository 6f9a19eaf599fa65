"""The protocol under every fault that one seed can think of, in one thread: see `simulate`."""
