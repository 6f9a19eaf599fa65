"""The history of a topology: its latest waves, starts and ends, kept at the checkpoint location across drivers."""
