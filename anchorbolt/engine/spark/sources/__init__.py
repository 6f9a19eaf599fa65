"""The sources of stream spouts: how they are named at the checkpoint location, and the rows that they give."""
