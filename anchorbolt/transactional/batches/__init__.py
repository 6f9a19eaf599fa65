"""The batches of a transactional topology, from the coordinator to their commit.

1. `metadata`: the stored metadata of a batch, and the slots for it beside the decision record;
2. `coordinator`: asks the spout's coordinator for the metadata of a new batch;
3. `flights`: one try at a batch, and the metadata from its emitters;
4. `pipeline`: begins batches, several at a time, and begins them again if one fails; `background` runs their processing
   phases on threads;
5. `hand_off`: the files in which tasks of late bolts keep a batch for its commit phase.
"""
