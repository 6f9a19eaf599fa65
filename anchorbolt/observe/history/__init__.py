"""The history of a topology, kept at the checkpoint location across drivers.

It has the latest waves, starts and ends, and the changes that commands made to the state.
"""
