"""What runs a bolt in its task: wraps it, handles the checkpoint tuples, and takes what it acked and failed."""
