"""Stores that die, lose data or take no writes while the job of `tests.crash` runs on Spark."""
