"""Workers that stay, on Spark: the jobs that host them, and the runner of their rounds."""
