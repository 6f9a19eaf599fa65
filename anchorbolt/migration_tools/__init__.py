"""Moves state that another program, or another provider, wrote. Starts nothing, and never imports the engine."""
