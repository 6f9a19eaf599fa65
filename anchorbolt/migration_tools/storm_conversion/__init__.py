"""Converts state that one Storm wrote to Redis to the format that another Storm reads."""
