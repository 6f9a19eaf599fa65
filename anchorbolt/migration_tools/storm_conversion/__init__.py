"""Converts state that one Storm wrote to Redis or HBase to the format that another Storm reads."""
